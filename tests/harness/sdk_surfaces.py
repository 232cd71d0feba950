"""The surfaces of the official Python SDKs in one form, so that a test can ask the same of each: `ask` makes a
request, streamed or whole, and says what the SDK understood of the answer.
"""

import json
from dataclasses import dataclass, field

import anthropic
import httpx2
import openai

from harness import scan

MODEL = "deepseek-flash"
SCHEMA = {"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]}
TOOL = "tide"


@dataclass
class Understood:
    reasoning: str = ""
    text: str = ""
    calls: list = field(default_factory=list)  # (id, name, arguments as a value)
    finish: str | None = None
    n_prompt: int = 0
    n_cached: int = 0
    n_output: int = 0


def _scan(response):
    if "event-stream" not in response.headers.get("content-type", ""):
        scan.check(response.read())


class _OpenAi:
    errors = openai
    overloaded_status = 503

    def client(self, server, key="any", timeout=30):
        http = httpx2.Client(event_hooks={"response": [_scan]}, trust_env=False)
        base = f"http://127.0.0.1:{server.port}/v1"
        return openai.OpenAI(base_url=base, api_key=key, max_retries=0, timeout=timeout, http_client=http)


class Chat(_OpenAi):
    name = "chat"
    has_tools = True
    called = "tool_calls"
    thinking_off = {"extra_body": {"thinking": {"type": "disabled"}}}
    choices = {"required": "required", "named": {"type": "function", "function": {"name": TOOL}}}
    too_hot = {"temperature": 3}

    def tools(self):
        return {"tools": [{"type": "function", "function": {"name": TOOL, "parameters": SCHEMA}}]}

    def create(self, sdk, text, **more):
        if more.get("stream"):
            more["stream_options"] = {"include_usage": True}
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}]} | more
        return sdk.chat.completions.create(**body)

    def ask(self, sdk, text, stream, **more):
        answer = self.create(sdk, text, stream=stream, **more)
        got = Understood()
        parts = {}
        for chunk in answer if stream else [answer]:
            for choice in chunk.choices:
                self._take(choice.delta if stream else choice.message, got, parts)
                got.finish = choice.finish_reason or got.finish
            if chunk.usage:
                usage = chunk.usage
                got.n_prompt, got.n_output = usage.prompt_tokens, usage.completion_tokens
                got.n_cached = usage.prompt_tokens_details.cached_tokens
                assert usage.total_tokens == got.n_prompt + got.n_output
        got.calls = [(i, name, json.loads(text)) for i, name, text in parts.values()]
        return got

    @staticmethod
    def _take(part, got, parts):
        got.text += part.content or ""
        got.reasoning += getattr(part, "reasoning_content", None) or ""
        for call in part.tool_calls or []:
            if call.id:
                parts[call.index] = [call.id, call.function.name, ""]
            parts[call.index][2] += call.function.arguments or ""


class Responses(_OpenAi):
    name = "responses"
    has_tools = True
    called = "completed"
    thinking_off = {"reasoning": {"effort": "none"}}
    choices = {"required": "required", "named": {"type": "function", "name": TOOL}}
    too_hot = {"temperature": 3}

    def tools(self):
        return {"tools": [{"type": "function", "name": TOOL, "parameters": SCHEMA, "strict": False}]}

    def create(self, sdk, text, **more):
        return sdk.responses.create(**{"model": MODEL, "input": text} | more)

    def ask(self, sdk, text, stream, **more):
        answer = self.create(sdk, text, stream=stream, **more)
        if not stream:
            return self._of(answer)
        final, deltas = None, ""
        for event in answer:
            deltas += event.delta if event.type == "response.output_text.delta" else ""
            if event.type in ("response.completed", "response.incomplete"):
                final = event.response
            if event.type == "response.failed":
                raise openai.APIError(event.response.error.message, request=None, body=None)
        got = self._of(final)
        assert got.text == deltas
        return got

    @staticmethod
    def _of(response):
        usage = response.usage
        got = Understood(text=response.output_text, finish=response.status)
        got.n_prompt, got.n_output = usage.input_tokens, usage.output_tokens
        got.n_cached = usage.input_tokens_details.cached_tokens
        assert usage.total_tokens == got.n_prompt + got.n_output
        for item in response.output:
            if item.type == "reasoning":
                got.reasoning += "".join(part.text for part in item.content)
            if item.type == "function_call":
                got.calls.append((item.call_id, item.name, json.loads(item.arguments)))
        return got


class Completions(_OpenAi):
    name = "completions"
    has_tools = False
    too_hot = {"temperature": 3}

    def create(self, sdk, text, **more):
        if more.get("stream"):
            more["stream_options"] = {"include_usage": True}
        return sdk.completions.create(**{"model": MODEL, "prompt": text} | more)

    def ask(self, sdk, text, stream, **more):
        answer = self.create(sdk, text, stream=stream, **more)
        got = Understood()
        for chunk in answer if stream else [answer]:
            for choice in chunk.choices:
                got.text += choice.text
                got.finish = choice.finish_reason or got.finish
            if chunk.usage:
                got.n_prompt, got.n_output = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
                got.n_cached = chunk.usage.prompt_tokens_details.cached_tokens
        return got


class Messages:
    name = "messages"
    has_tools = True
    errors = anthropic
    overloaded_status = 529
    called = "tool_use"
    thinking_off = {"thinking": {"type": "disabled"}}
    choices = {"required": {"type": "any"}, "named": {"type": "tool", "name": TOOL}}
    too_hot = {"extra_body": {"temperature": 3}}

    def client(self, server, key="any", timeout=30):
        http = anthropic.DefaultHttpxClient(event_hooks={"response": [_scan]}, trust_env=False)
        base = f"http://127.0.0.1:{server.port}"
        return anthropic.Anthropic(base_url=base, api_key=key, max_retries=0, timeout=timeout, http_client=http)

    def tools(self):
        return {"tools": [{"name": TOOL, "input_schema": SCHEMA}]}

    def create(self, sdk, text, **more):
        body = {"model": MODEL, "max_tokens": 4096, "messages": [{"role": "user", "content": text}]}
        return sdk.messages.create(**body | more)

    def ask(self, sdk, text, stream, **more):
        if not stream:
            return self._of(self.create(sdk, text, **more))
        body = {"model": MODEL, "max_tokens": 4096, "messages": [{"role": "user", "content": text}]}
        with sdk.messages.stream(**body | more) as events:
            return self._of(events.get_final_message())

    @staticmethod
    def _of(message):
        usage = message.usage
        got = Understood(finish=message.stop_reason, n_output=usage.output_tokens)
        got.n_cached = usage.cache_read_input_tokens
        got.n_prompt = usage.input_tokens + got.n_cached + usage.cache_creation_input_tokens
        for block in message.content:
            got.reasoning += block.thinking if block.type == "thinking" else ""
            got.text += block.text if block.type == "text" else ""
            if block.type == "tool_use":
                got.calls.append((block.id, block.name, block.input))
        return got


ALL = {surface.name: surface for surface in (Chat(), Responses(), Messages(), Completions())}
WITH_TOOLS = {name: surface for name, surface in ALL.items() if surface.has_tools}
