#!/usr/bin/env python3
"""Writes tests/golden/chatml/cases.jsonl: python3 tools/chatml_cases.py SMOLLM2.gguf QWEN25.jinja FOLDER

Prompts are what the models' own chat templates make of conversations, rendered by the package jinja2 (3.1) as
transformers renders them; none comes from this program. SMOLLM2.gguf is SmolLM2-135M-Instruct, whose metadata has the
template; QWEN25.jinja is the member chat_template of Qwen2.5-7B-Instruct's tokenizer_config.json. SmolLM2's template
knows no tools: its system text for them is the one that its model card gives, filled in as the card does.
"""

import json
import sys
from pathlib import Path

import gguf
from jinja2.sandbox import ImmutableSandboxedEnvironment

SMOLLM2, QWEN25, FOLDER = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])

# From the card's page on function calling.
SMOLLM2_TOOLS = """You are an expert in composing functions. You are given a question and a set of possible functions. 
Based on the question, you will need to make one or more function/tool calls to achieve the purpose. 
If none of the functions can be used, point it out and refuse to answer. 
If the given question lacks the parameters required by the function, also point it out.

You have access to the following tools:
<tools>{{ tools }}</tools>

The output MUST strictly adhere to the following format, and NO other text MUST be included.
The example format is as follows. Please make sure the parameter type is correct. If no function call is needed, please make the tool calls an empty list '[]'.
<tool_call>[
{"name": "func_name1", "arguments": {"argument1": "value1", "argument2": "value2"}},
... (more tool calls as required)
]</tool_call>"""


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = to_json
    return env


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather \"now\" <here>, für alle 🙂",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Paris", "Köln"]}, "n": {"type": "number", "minimum": 0.5}},
            "required": ["city"],
        },
    },
}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, id="c1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(role, content):
    return {"role": role, "content": content}


USER = said("user", "What is the weather in Paris?")
CALLING = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Paris", "n": 1.5})]}
BOTH = {
    "role": "assistant",
    "content": "Let me see.",
    "tool_calls": [call("get_weather", {"city": "Köln \"x\""}, "c1"), call("now", {}, "c2")],
}


def result(id, content):
    return {"role": "tool", "tool_call_id": id, "content": content}


# name, messages, tools
PLAIN = [
    ("one", [said("user", "hi")]),
    ("system", [said("system", "Be brief."), said("user", "hi")]),
    ("turns", [said("user", "hi"), said("assistant", "Hello!\n\n"), said("user", "  and\nnow?\n")]),
    ("line-feeds", [said("user", "a"), said("assistant", "\n\n\nb"), said("user", "c")]),
    ("late-system", [said("user", "a"), said("system", "Be kind."), said("user", "b")]),
    ("two-users", [said("user", "a"), said("user", "b")]),
    ("unicode", [said("user", "🙂 e\u0301 中文 \u00a0 3.14")]),
]
WITH_TOOLS = [
    ("tools", [USER], [WEATHER, NOW]),
    ("tools-one", [USER], [NOW]),
    ("tools-call", [USER, CALLING, result("c1", "sunny, 21 °C"), said("user", "thanks")], [WEATHER]),
    ("tools-result-last", [USER, CALLING, result("c1", "{\"sky\": \"clear\"}")], [WEATHER]),
    ("tools-two", [USER, BOTH, result("c1", "rain"), result("c2", "noon")], [WEATHER, NOW]),
]
QWEN_ONLY = [("tools-system", [said("system", "Be brief."), USER], [WEATHER])]


def smollm2_prompt(template, messages, tools):
    """The card has the text for tools as the system message, calls as a list between its tags, and results in the turn
    of the user."""
    rendered = []
    if tools:
        text = environment().from_string(SMOLLM2_TOOLS).render(tools=json.dumps(tools, ensure_ascii=False))
        rendered.append(said("system", text))
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            response = "<tool_response>\n" + message["content"] + "\n</tool_response>"
            if i > 0 and messages[i - 1]["role"] == "tool":
                rendered[-1]["content"] += "\n" + response
            else:
                rendered.append(said("user", response))
            continue
        calls = [c["function"] for c in message.get("tool_calls", [])]
        content = message["content"]
        if calls:
            listed = [{"name": c["name"], "arguments": c["arguments"]} for c in calls]
            content += ("\n" if content else "") + "<tool_call>" + json.dumps(listed, ensure_ascii=False) + "</tool_call>"
        rendered.append(said(message["role"], content))
    return template.render(messages=rendered, add_generation_prompt=True)


def request_of(messages, tools):
    """The same as the body of a Chat request."""
    sent = []
    for message in messages:
        message = json.loads(json.dumps(message))
        for c in message.get("tool_calls", []):
            c["function"]["arguments"] = json.dumps(c["function"]["arguments"], ensure_ascii=False)
        sent.append(message)
    return {"model": "m", "messages": sent} | ({"tools": tools} if tools else {})


def main():
    smollm2 = environment().from_string(gguf.GGUFReader(SMOLLM2).fields["tokenizer.chat_template"].contents())
    qwen25 = environment().from_string(QWEN25.read_text(encoding="utf-8"))
    cases = [(name, messages, None) for name, messages in PLAIN] + WITH_TOOLS
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "cases.jsonl").open("w", encoding="utf-8", newline="\n") as out:
        for family, listed in (("smollm2", cases), ("qwen2.5", cases + QWEN_ONLY)):
            for name, messages, tools in listed:
                if family == "smollm2":
                    prompt = smollm2_prompt(smollm2, messages, tools)
                else:
                    prompt = qwen25.render(messages=messages, tools=tools, add_generation_prompt=True)
                case = {"family": family, "name": name, "request": request_of(messages, tools), "prompt": prompt}
                out.write(json.dumps(case, ensure_ascii=False) + "\n")


main()
