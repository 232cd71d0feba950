#!/usr/bin/env python3
"""`./dev bench codec`: the codec beside the official package, alternating round by round.

Usage: python tools/bench_codec.py BENCH_BUILD_DIR TOKENIZER_JSON [--rounds N]
Needs deepseek-recipe (bench/requirements.txt). Run in the repository's folder.

Both get the same texts, requests and output tokens, and their results are compared after each round: a difference ends the
bench with status 1. Times are the processor's, of all threads together.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import deepseek_recipe as recipe  # noqa: E402

KINDS = ("code", "english", "chinese")
TARGETS = {
    "tokenize code": (">= 30 MB/s", lambda v: v >= 30),
    "tokenize english": (">= 30 MB/s", lambda v: v >= 30),
    "tokenize chinese": (">= 15 MB/s", lambda v: v >= 15),
    "prepare first": ("<= 5 ms", lambda v: v <= 5),
    "prepare next": ("<= 5 ms", lambda v: v <= 5),
    "output": ("<= 0.3 us", lambda v: v <= 0.3),
}
REQUEST_BYTES = 128_000  # of the agent's request
RESULTS = 20
TOOLS = 12
CHINESE_BYTES = 1_000_000
IMAGE = "<｜deepseek_image｜>"
OFFICIAL_ANSWERS = 5

SUBJECTS = "服务器 客户 模型 编译器 这个函数 缓存 老师 孩子们 科学家 城市 数据库 研究人员 工程师 新的方法 用户 测试 公司 火车 天气 图书馆".split()
VERBS = "需要 发现 提高 记录 返回 使用 检查 等待 改变 保存 解释 减少 访问 建立 讨论 完成 忽略 比较 支持 生成".split()
OBJECTS = "内存 请求 结果 错误 温度 材料 速度 文件 合同 问题 答案 词元 权限 计划 报告 经验 机会 成本 参数 历史".split()
EXTRAS = "昨天 在北京 非常 已经 同时 因此 很快 慢慢地 为了大家 如果可能 第二次 一般 突然 由于雨天 按照规定 虽然困难 也 从此 大约 终于".split()


def chinese(n_bytes, seed):
    """Clauses of common words, hardly two alike: runs of characters are pieces of their own, and real texts repeat few of them."""
    rng = random.Random(seed)
    parts, size = [], 0
    while size < n_bytes:
        clause = rng.choice(EXTRAS) + rng.choice(SUBJECTS) + rng.choice(EXTRAS) + rng.choice(VERBS) + rng.choice(OBJECTS)
        clause += rng.choice("，。，；、，\n")
        parts.append(clause)
        size += len(clause.encode())
    return "".join(parts)


def split_files(paths):
    """The text of four files of five, and that of the fifth ones."""
    texts = [p.read_text(encoding="utf-8") for p in sorted(paths)]
    return "".join(t for i, t in enumerate(texts) if i % 5), "".join(texts[::5])


def write_texts(work):
    code = split_files(pathlib.Path("src").rglob("*.cc"))
    english = split_files([*pathlib.Path(".").glob("*.md"), *pathlib.Path("docs").rglob("*.md"),
                           *pathlib.Path("src").rglob("*.md"), *pathlib.Path("tests").glob("**/README.md")])
    texts = {"code": code, "english": english, "chinese": (chinese(CHINESE_BYTES, 1), chinese(CHINESE_BYTES // 5, 2))}
    for kind, (warm, timed) in texts.items():
        (work / f"{kind}.warm.txt").write_text(warm, encoding="utf-8", newline="")
        (work / f"{kind}.timed.txt").write_text(timed, encoding="utf-8", newline="")


def tool(i):
    properties = {
        "file_path": {"type": "string", "description": "The absolute path of the file to work on"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 2000, "description": f"How many lines to read, at most {100 * i + 100}"},
        "mode": {"type": "string", "enum": ["text", "binary", "lines"]},
    }
    description = (f"Tool {i} reads, searches or edits a file of the project. Prefer it over shell commands. It fails with a message "
                   "if the path does not exist, if it is a folder, or if the range is outside of the file.")
    return {"type": "function", "function": {"name": f"file_tool_{i}", "description": description,
                                             "parameters": {"type": "object", "properties": properties, "required": ["file_path"]}}}


def agent_request(n_rounds, source):
    """An agent's request after `n_rounds` calls, each answered by a piece of `source`."""
    messages = [{"role": "system", "content": "You are a careful engineer. " * 20},
                {"role": "user", "content": "The second test of the queue fails on a busy machine. Find out why and mend it."}]
    per_result = (REQUEST_BYTES - 22_000) // RESULTS
    for i in range(n_rounds):
        call = {"id": f"call_{i}", "type": "function", "function": {
            "name": f"file_tool_{i % TOOLS}", "arguments": json.dumps({"file_path": f"/srv/queue/src/part_{i}.cc", "limit": 100 + i})}}
        messages.append({"role": "assistant", "content": "Next I read the file that it calls.", "tool_calls": [call],
                         "reasoning_content": f"The failure may come from part {i}: the counter is read before the lock is taken."})
        messages.append({"role": "tool", "tool_call_id": f"call_{i}", "content": source[i * per_result:(i + 1) * per_result]})
    return {"model": "deepseek-flash", "stream": True, "tools": [tool(i) for i in range(TOOLS)], "messages": messages}


OUTPUT = ("The counter is read twice, and between the two readings another thread may change it. I look at the queue first, then at the "
          "place where the test waits. " * 4 + "</think>The fault is in `Push`: it tells the waiting thread before the element is "
          "visible.\n\n```cpp\nvoid Push(int value) {\n  slots_[tail_] = value;\n  tail_.store(tail_ + 1, release);\n}\n```\n" * 3
          + "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"file_tool_1\">\n<｜DSML｜ parameter name=\"file_path\" string=\"true\">"
          + "/srv/queue/src/queue.cc and \"quoted\" text\n" * 20 + "</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"limit\" string=\"false\">200"
          "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>")


class Official:
    """The official package over the files that ours reads."""

    def __init__(self, work, tokenizer_path):
        self.work = work
        self.tokenizer = recipe.Tokenizer.from_str(pathlib.Path(tokenizer_path).read_text(encoding="utf-8"))
        specials = recipe.SpecialTokens(image=IMAGE)
        self.encoding = recipe.DeepseekV41Encoding().with_special_tokens(specials).with_tokenizer(self.tokenizer)
        options = recipe.ConversionOptions().with_model_alias("deepseek-flash", recipe.ModelVersion.DeepseekV41Flash)
        self.options = options.with_special_tokens(specials)

    def ids_of(self, text):
        """Plain text to ids, through a prompt: the tokenizer alone would read control tokens in it."""
        conversation = recipe.Conversation([recipe.UserMessage(text)], thinking_mode=False)
        ids = self.encoding.encode(conversation)
        return ids[2:-2]  # begin, user ... assistant, end of thinking

    def prepare(self, body):
        return self.encoding.encode(recipe.ChatCompletionRequest(body).convert(self.options).conversation)

    def answer(self, ids):
        """The stream's chunks as JSON text, one token pushed at a time."""
        request = recipe.ChatCompletionRequest((self.work / "request.json").read_text(encoding="utf-8"))
        converted = request.convert(self.options)
        generator = recipe.ChatCompletionRequest.chunk_generator(converted, "id", "model")
        processor = recipe.StreamProcessor(generator, converted.parsing_options, self.tokenizer)
        chunks = [recipe.InferenceChunk.tokens([i]) for i in ids]
        start = time.process_time()
        out = []
        for chunk in chunks:
            out += [c.to_json() for c in processor.push(chunk)]
        return time.process_time() - start, out

    def round(self):
        """Like the C++ side: {name: (seconds, digest)}."""
        results = {}
        for kind in KINDS:
            text = (self.work / f"{kind}.timed.txt").read_text(encoding="utf-8")
            start = time.process_time()
            ids = self.ids_of(text)
            results[f"tokenize {kind}"] = (time.process_time() - start, digest(ids))
        for name, file in (("prepare first", "request.json"), ("prepare next", "next.json")):
            body = (self.work / file).read_text(encoding="utf-8")
            start = time.process_time()
            ids = self.prepare(body)
            results[name] = (time.process_time() - start, digest(ids))
        ids = json.loads((self.work / "output.json").read_text())
        seconds = statistics.median(self.answer(ids)[0] for _ in range(OFFICIAL_ANSWERS))
        results["output"] = (seconds, None)
        return results


def digest(ids):
    return hashlib.sha256("".join(f"{i} " for i in ids).encode()).hexdigest()


def joined(chunks):
    """Reasoning, content and arguments of a stream's chunks."""
    reasoning = content = arguments = ""
    for chunk in map(json.loads, chunks):
        for choice in chunk["choices"]:
            delta = choice["delta"]
            reasoning += delta.get("reasoning_content") or ""
            content += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                arguments += call["function"].get("arguments") or ""
    return reasoning, content, arguments


def frames_of(path):
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]


def ours_round(binary, tokenizer, work):
    out = subprocess.run([binary, tokenizer, work], check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    return {row["name"]: (row["seconds"], row["digest"]) for row in rows}


def require(condition, what):
    if not condition:
        sys.exit(f"bench codec: wrong result: {what}")


def verify(ours, official, work, output_ids, peer):
    for name, (_, want) in official.items():
        require(want is None or ours[name][1] == want, f"{name}: our tokens are not the official package's")
    require(joined(frames_of(work / "output.sse")) == joined(peer.answer(output_ids)[1]), "output: the streams differ")


def value_of(name, seconds, sizes):
    if name.startswith("tokenize"):
        return sizes[name] / seconds / 1e6
    if name == "output":
        return 1e6 * seconds / sizes[name]
    return 1e3 * seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("tokenizer")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    work = pathlib.Path(args.build) / "codec_work"
    work.mkdir(parents=True, exist_ok=True)
    write_texts(work)
    source = (work / "code.timed.txt").read_text(encoding="utf-8")
    for name, n in (("request.json", RESULTS), ("next.json", RESULTS + 1)):
        (work / name).write_text(json.dumps(agent_request(n, source), ensure_ascii=False), encoding="utf-8")
    peer = Official(work, args.tokenizer)
    output_ids = peer.tokenizer.encode(OUTPUT)
    (work / "output.json").write_text(json.dumps(output_ids))

    binary = str(pathlib.Path(args.build) / "src" / "codec_codec_bench")
    ours, official = [], []
    for _ in range(args.rounds):
        ours.append(ours_round(binary, args.tokenizer, str(work)))
        official.append(peer.round())
        verify(ours[-1], official[-1], work, output_ids, peer)

    sizes = {f"tokenize {k}": (work / f"{k}.timed.txt").stat().st_size for k in KINDS} | {"output": len(output_ids)}
    n_prompt = len(peer.prepare((work / "request.json").read_text(encoding="utf-8")))
    print(f"request {(work / 'request.json').stat().st_size} bytes, {n_prompt} tokens; answer {len(output_ids)} tokens; {args.rounds} rounds")
    print(f"{'measure':<20}{'ours':>9}{'min':>9}{'max':>9}{'official':>10}  {'unit':<12}{'target':<14}ratio")
    for name, (target, holds) in TARGETS.items():
        mine = [value_of(name, r[name][0], sizes) for r in ours]
        theirs = [value_of(name, r[name][0], sizes) for r in official]
        median, other = statistics.median(mine), statistics.median(theirs)
        unit = "MB/s" if name.startswith("tokenize") else "us/token" if name == "output" else "ms"
        ratio = max(median, other) / min(median, other)
        print(f"{name:<20}{median:>9.3g}{min(mine):>9.3g}{max(mine):>9.3g}{other:>10.3g}  {unit:<12}"
              f"{target + (' ok' if holds(median) else ' missed'):<20}{ratio:.1f}x")


if __name__ == "__main__":
    main()
