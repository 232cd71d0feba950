"""The tables of tidy: limits, who may include and use what, words without meaning, names of machines.

Places are patterns of paths relative to src/; an empty list means nowhere.
"""

import re

MAX_COLUMNS = 100
MAX_FUNCTION, MAX_FUNCTION_WAIVED = 70, 150
MAX_NESTING = 4
MAX_FILE, MAX_FILE_WAIVED = 500, 1000
MAX_README = 60
# kernels: one header per operator; tensor: the words all of them speak.
MAX_PUBLIC_HEADERS, MANY_HEADERS = 5, ("base", "wire", "tensor", "kernels")
MAX_BEAST_UNITS = 4  # each costs 8-30 s: requests and responses of serve, the responses that load measures, the compiled half
CONDITIONS_PER_LINES = 1000

# In an op folder of kernels simply test.cc and bench.cc.
TESTS = ("*_test.cc", "*_bench.cc", "*_fuzz.cc", "*_test_impl.h", "kernels/*/test.cc", "kernels/*/bench.cc")

# Includes by pattern: (pattern of the included path, where it may stand, what to do instead).
CONFINED_INCLUDES = [
    ("boost/beast/*", ["serve/*.cc", "load/*.cc"], "Beast stays in serve and load, and in .cc files"),
    ("boost/beast.hpp", ["serve/*.cc"], "Beast stays in serve, and in .cc files"),
    ("boost/asio*", ["serve/*", "load/*", "env/posix/*"], "sockets and timers belong to serve, load and env/posix"),
    ("boost/unordered*", ["base/containers.h"], "use FlatMap of base/containers.h"),
    ("boost/container/*", ["base/containers.h"], "use SmallVec of base/containers.h"),
    ("simdjson*", ["base/json.cc"], "use base/json.h"),
    ("nlohmann/*", TESTS, "use base/json.h; nlohmann-json is for tests"),
    ("spdlog/*", ["base/log.cc"], "use base/log.h"),
    ("fmt/*", ["*.cc", "*_test_impl.h"], "format in the .cc: fmt makes every includer slow"),
    ("toml++/*", ["base/options.cc"], "use base/options.h"),
    ("CLI/*", ["base/options.cc", "app/main.cc"], "use base/options.h"),
    ("openssl/*", ["base/sha256.cc", "base/aead.cc", "serve/tls.cc"], "use base/sha256.h or serve/tls.h"),
    ("zlib.h", ["serve/body.cc", "serve/*_test.cc"], "use serve/body.h"),
    ("zstd.h", ["serve/body.cc", "serve/*_test.cc"], "use serve/body.h"),
    ("prometheus/*", ["base/metrics.cc"], "use base/metrics.h"),
    ("liburing*", ["env/posix/*"], "use env/file_system.h"),
    ("Random123/*", ["base/rng.cc"], "use base/rng.h"),
    ("utf8proc.h", ["model/deepseek_v41/engram_tokens.cc", "token/nfc.cc"], "use token/nfc.h or model/deepseek_v41/engram_tokens.h"),
    ("xxhash.h", ["codec/call_id.cc", "codec/call_id_test.cc"], "use codec/call_id.h"),
    ("histedit.h", ["app/line_editor.cc"], "use app/line_editor.h"),
    ("editline/*", ["app/line_editor.cc"], "use app/line_editor.h"),
    ("hwloc*", ["tensor/topology.cc"], "use tensor/topology.h"),
    ("cuda*", ["tensor/cuda/*", "kernels/*.cu", "comm/nccl/*"], "CUDA has three places"),
    ("*mmintrin.h", ["kernels/*"], "intrinsics stay in kernels"),
    ("gtest/*", TESTS, "tests only"),
    ("gmock/*", TESTS, "tests only"),
    ("benchmark/*", ["*_bench.cc"], "benches only"),
    ("mutex", ["base/mutex.h", "base/log.cc"], "use base/mutex.h, which clang can check"),  # log: spdlog's sinks want one
    ("condition_variable", ["base/mutex.h"], "use base/mutex.h"),
    ("shared_mutex", [], "immutable data or one owner"),
    ("thread", ["base/work_pool.cc", "env/posix/*", "tensor/thread_team.cc", "app/*.cc", *TESTS],
     "components are passive: their owner calls Step"),
    ("future", [*TESTS], "use a queue and a bell"),
]

# The outside world. Tests may use it, on loopback.
SYSTEM_HEADERS = re.compile(
    r"sys/.*|unistd\.h|fcntl\.h|netinet/.*|arpa/.*|poll\.h|dirent\.h|pthread\.h|sched\.h|signal\.h|csignal|linux/.*"
)
SYSTEM_PLACES = ["env/posix/*", "app/signals.cc", "tensor/topology.cc", "tensor/thread_team.cc", "tensor/buffer.cc", "media/sandbox.cc", *TESTS]

# Too slow to parse for everybody (0.1-0.4 s per includer).
HEAVY_IN_HEADERS = {"iostream", "regex", "filesystem", "ranges", "random", "thread", "functional"}

# cluster/router: whether a request may wait depends on all that wait, and is answered at once; the engine thread takes them.
# response_store: prep threads look up what a request refers to while the net thread keeps and serves responses.
MUTEX_PLACES = [
    "base/mutex.h", "base/work_pool.cc", "base/log.cc", "grammar/compiler.*", "codec/turn_memory.*",
    "codec/dialect/responses/response_store.*", "cluster/router.*", "env/posix/*", *TESTS,
]
SEAMS = ["wire/token_service.h", "model/model.h", "kv/block_store.h", "comm/group.h", "env/*.h"]

# Code by pattern: (rule, pattern, where it may stand, what to do instead).
CONFINED_CODE = [
    ("clock", r"\b(?:steady|system|high_resolution)_clock\b|\bclock_gettime\b|\bgettimeofday\b",
     ["env/posix/*", "tensor/thread_team.cc", "*_bench.cc", "*_bench_impl.h", "kernels/*/bench.cc"], "take `now`, or a Clock from Env"),
    ("entropy", r"\brandom_device\b|\bmt19937\w*|\bgetrandom\b|\bdefault_random_engine\b",
     ["env/posix/*", *TESTS], "take Entropy from Env, or Rng(seed, position, stream)"),
    ("environment", r"\bgetenv\b|\benviron\b", ["app/main.cc", *TESTS], "declare an option"),
    ("sleep", r"\b(?:u|nano)?sleep\s*\(|\bsleep_(?:for|until)\b", ["env/posix/*", "*_bench.cc"],
     "components never sleep: return the time of the next Step; tests step a sim clock"),
    ("random", r"(?<![\w.>:])s?rand\s*\(", [], "print a seed and use a counter-based generator"),
    ("clock", r"(?<![\w.>:&])(?:std::)?time\s*\(", [], "take `now`, or a Clock from Env"),
    ("memory", r"\b(?:madvise|mbind|set_mempolicy)\b", ["tensor/*", "env/posix/*"], "memory placement belongs to tensor"),
    ("new", r"(?<!>\()\bnew\b|(?<![=\s])\s*\bdelete\b|\b(?:m|c|re)alloc\s*\(|(?<![\w.>:])free\s*\(\s*[^)\s]",
     ["*arena*"], "use values and make_unique"),
    # base/log.cc: spdlog takes nothing else. The others share what is immutable: compiled grammars, script lines.
    ("shared_ptr", r"\b(?:shared_ptr|make_shared|enable_shared_from_this)\b",
     ["base/log.cc", "grammar/compiler.*", "codec/script_book*", "codec/prepare.cc", "wire/request.h", "*_test.cc", "*_test_impl.h", "*_bench.cc"],
     "one owner: a value or unique_ptr"),
    ("mutex", r"\b(?:Mutex|MutexLock|CondVar)\b", MUTEX_PLACES, "one owner: exchange wire structs through a queue"),
    ("throw", r"\bthrow\b", [], "return a Status"),
    ("coroutine", r"\bco_(?:await|return|yield)\b", ["serve/*", "load/*", "env/posix/*"], "only serve, load and env/posix wait"),
    ("seam", r"\bvirtual\b(?!\s*~)", SEAMS, "six seams and no seventh without a design note"),
    ("print", r"\bstd::(?:cout|cerr|clog)\b", [], "log, or let app print"),
]

# Words of no meaning: (pattern in code, what to write).
BANNED_WORDS = [
    (r"\b\w*Manager\b", "say what it does: Pool, Table, Router"),
    (r"\b\w*Processor\b", "say what it does: Decoder, Encoder, Planner"),
    (r"\b\w*Utils?\b|\bnamespace\s+utils?\b", "name the thing of the domain"),
    (r"\b\w+Helpers?\b", "name what it returns"),
    (r"\b[A-Z]\w+Impl\b", "name what is special about it"),
    (r"\b(?!ModelInfo\b)[A-Z]\w*Info\b", "name the content: Params, Report, Row"),
    (r"\bnamespace\s+common\b", "name the module"),
]
BANNED_FILE_WORDS = {"common", "util", "utils", "helper", "helpers", "manager", "processor", "misc"}

# Names of machines, in any text file. Spelt so that this file does not contain them.
LEAKS = re.compile(
    r"(?:^|[^A-Za-z0-9_.])/(?:work|farm|root|home)/|files\.pythonhosted|pypi\.org|registry\.npmjs|deb\.debian",
    re.M,
)
TEXT_SUFFIXES = {
    ".h", ".cc", ".cu", ".def", ".inc", ".md", ".txt", ".cmake", ".json", ".jsonl", ".py", ".toml", ".case", ".ini", ".csv", "",
}
SKIPPED_FOLDERS = {"build", ".venv", ".git", "__pycache__", ".pytest_cache"}

# Each has a row in tests/named-cases.md: open cases of the codec and of sampling, and security rows of the codec and of the page.
NAMED_CASES = [f"C{n:02}" for n in (*range(1, 32), 38, 39, 40, 42, 43, 44)] + ["S9", "S10", "S13", "S19", "S21"]
