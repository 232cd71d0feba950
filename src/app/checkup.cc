#include "app/checkup.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/inspection.h"
#include "env/posix/probe.h"
#include "env/proc_text.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCgroup = "/sys/fs/cgroup";
constexpr ReadTrialLimits kDiskLimits = {.n_bytes = 256 * kMiB, .time = Duration::Seconds(2)};
constexpr ReadTrialLimits kFolderLimits = {.n_bytes = 64 * kMiB, .time = Duration::Seconds(2)};

double Gb(int64_t n_bytes) { return static_cast<double>(n_bytes) / 1e9; }

// Empty where there is no such file, or it may not be read.
std::string TextOf(FileSystem& fs, std::string_view path) {
  Result<std::string> text = fs.ReadWhole(path, kMaxProcTextBytes);
  return text ? std::move(*text) : std::string();
}

Check Passed(std::string_view name, std::string finding) {
  return {.name = name, .verdict = Verdict::kPass, .finding = std::move(finding), .remedy = {}};
}
Check Warned(std::string_view name, std::string finding, std::string remedy) {
  return {name, Verdict::kWarn, std::move(finding), std::move(remedy)};
}
Check Failed(std::string_view name, std::string finding, std::string remedy) {
  return {name, Verdict::kFail, std::move(finding), std::move(remedy)};
}

// Our cgroup and those around it, each of which binds, of the version with one hierarchy.
std::vector<std::string> CgroupFolders(FileSystem& fs) {
  const std::string own = TextOf(fs, "/proc/self/cgroup");
  std::string path(CgroupPath(own));
  std::vector<std::string> folders;
  while (true) {
    if (path.ends_with('/')) path.pop_back();
    folders.push_back(fmt::format("{}{}", kCgroup, path));
    if (path.empty()) return folders;
    path.resize(path.rfind('/'));
  }
}

// Cores' worth of time; absent: no limit.
std::optional<double> CpuQuota(FileSystem& fs) {
  std::optional<double> least;
  for (const std::string& folder : CgroupFolders(fs)) {
    const std::optional<double> here = CoresOfQuota(TextOf(fs, folder + "/cpu.max"));
    if (here && (!least || *here < *least)) least = here;
  }
  if (least) return least;
  return CoresOfQuota(TextOf(fs, fmt::format("{}/cpu/cpu.cfs_quota_us", kCgroup)) + " " +
                      TextOf(fs, fmt::format("{}/cpu/cpu.cfs_period_us", kCgroup)));
}

Check Cpu(FileSystem& fs) {
  const std::string text = TextOf(fs, "/proc/cpuinfo");
  const std::string_view flags = FieldOf(text, "flags");
  struct Feature {
    std::string_view flag, name;
  };
  constexpr Feature kFeatures[] = {{"avx2", "AVX2"},
                                   {"avx512f", "AVX-512"},
                                   {"avx512_vnni", "VNNI"},
                                   {"avx512_bf16", "BF16"},
                                   {"amx_tile", "AMX"}};
  std::string has, lacks;
  for (const Feature& feature : kFeatures) {
    std::string& list = HasWord(flags, feature.flag) ? has : lacks;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", feature.name);
  }
  const std::string_view model = FieldOf(text, "model name");
  std::string finding = fmt::format("{}: {}", model.empty() ? "unknown processor" : model,
                                    has.empty() ? "none of " + lacks : has);
  if (!has.empty() && !lacks.empty()) finding += "; not " + lacks;
  if (HasWord(flags, "avx2")) return Passed("cpu", finding);
  return Warned("cpu", finding, "A processor with AVX2 computes several times as fast.");
}

Check Cores(FileSystem& fs, int32_t n_threads) {
  const std::string status = TextOf(fs, "/proc/self/status");
  const std::optional<int64_t> n_cores = CountOfRanges(FieldOf(status, "Cpus_allowed_list"));
  if (!n_cores) {
    return Warned("cores", "the system does not say how many there are", "Set --threads by hand.");
  }
  const std::optional<double> quota = CpuQuota(fs);
  std::string finding = fmt::format("{} usable", *n_cores);
  if (quota) finding += fmt::format(", time of {:.2f} by the cgroup", *quota);
  const int64_t n_wanted = n_threads > 0 ? n_threads : *n_cores;
  if (quota && *quota < static_cast<double>(n_wanted)) {
    return Warned(
        "cores", finding,
        fmt::format("Threads beyond the quota wait for each other: --threads {} avoids it.",
                    std::max(1, static_cast<int>(*quota))));
  }
  if (*n_cores < 2) {
    return Warned("cores", finding,
                  "A second core lets the server answer while the model computes.");
  }
  return Passed("cores", finding);
}

struct Memory {
  int64_t total = 0;
  int64_t available = 0;
  std::optional<int64_t> limit;  // of the cgroup
};

// A limit, what counts against it, and how much of that the system takes back by itself: files that
// are only cached.
struct LimitFiles {
  std::string limit, used, stat;
};

void ApplyLimit(FileSystem& fs, const LimitFiles& files, Memory& memory) {
  const std::optional<int64_t> limit = CgroupBytes(TextOf(fs, files.limit));
  if (!limit) return;
  const std::string stat = TextOf(fs, files.stat);
  const int64_t n_used = CgroupBytes(TextOf(fs, files.used)).value_or(0) -
                         StatBytes(stat, "inactive_file").value_or(0);
  memory.limit = std::min(memory.limit.value_or(*limit), *limit);
  memory.available = std::min(memory.available, std::max<int64_t>(0, *limit - n_used));
}

std::optional<Memory> MemoryOf(FileSystem& fs) {
  const std::string text = TextOf(fs, "/proc/meminfo");
  const std::optional<int64_t> total = KilobyteField(text, "MemTotal");
  const std::optional<int64_t> available = KilobyteField(text, "MemAvailable");
  if (!total || !available) return std::nullopt;
  Memory memory = {.total = *total, .available = *available, .limit = std::nullopt};
  for (const std::string& folder : CgroupFolders(fs)) {
    ApplyLimit(fs, {folder + "/memory.max", folder + "/memory.current", folder + "/memory.stat"},
               memory);
  }
  const std::string first = fmt::format("{}/memory/memory.", kCgroup);  // version 1
  ApplyLimit(fs, {first + "limit_in_bytes", first + "usage_in_bytes", first + "stat"}, memory);
  return memory;
}

Check MemoryCheck(const std::optional<Memory>& memory) {
  if (!memory) return Warned("memory", "the system does not say how much there is", "Mount /proc.");
  std::string finding =
      fmt::format("{:.1f} GB, {:.1f} GB available", Gb(memory->total), Gb(memory->available));
  if (memory->limit) finding += fmt::format(", {:.1f} GB by the cgroup", Gb(*memory->limit));
  constexpr int64_t kLeast = 512 * kMiB;
  constexpr int64_t kEnough = 2 * kGiB;
  if (memory->available < kLeast) {
    return Failed("memory", finding,
                  "End other programs or raise the limit: a small model needs 0.5 GB.");
  }
  if (memory->available < kEnough) {
    return Warned("memory", finding, "With 2 GB or more there is room for several conversations.");
  }
  return Passed("memory", finding);
}

// What a model needs in memory, and the largest of its files.
struct ModelNeeds {
  int64_t n_bytes = 0;
  std::string largest_file;
};

// As the plan of `sluice inspect` has it, for one answer of full length unless kv-memory says more:
// not everything of a
// checkpoint must be in memory.
Result<ModelNeeds> NeedsOf(FileSystem& fs, const AppOptions& options) {
  SLUICE_TRY(const Inspection whole, Inspect(fs, options.model, {}));
  SLUICE_TRY(const Inspection found,
             Inspect(fs, options.model,
                     {.n_context = std::min<int64_t>(options.n_context, whole.load.n_context),
                      .n_seqs = 1,
                      .kv_bytes = options.kv_memory_bytes}));
  SLUICE_TRY(found.binding);
  ModelNeeds needs{.n_bytes = found.plan.needed()};
  if (fs.Size(options.model)) {
    needs.largest_file = options.model;
    return needs;
  }
  SLUICE_TRY(const std::vector<std::string> names, fs.List(options.model));
  int64_t n_largest = 0;
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors") && !name.ends_with(".gguf")) continue;
    const std::string path = fmt::format("{}/{}", options.model, name);
    SLUICE_TRY(const int64_t n_bytes, fs.Size(path));
    if (n_bytes <= n_largest) continue;
    n_largest = n_bytes;
    needs.largest_file = path;
  }
  return needs;
}

Check ModelCheck(const AppOptions& options,
                 const Result<ModelNeeds>& needs,
                 const std::optional<Memory>& memory) {
  if (!needs) {
    return Failed("model", std::string(needs.error().message()),
                  "Name a model folder or a .gguf file that can be read.");
  }
  const std::string finding =
      fmt::format("{} needs {:.2f} GB of memory", options.model, Gb(needs->n_bytes));
  if (memory && needs->n_bytes > memory->available) {
    return Failed("model",
                  fmt::format("{}, {:.2f} GB are available", finding, Gb(memory->available)),
                  "Take a smaller model or a machine with more memory.");
  }
  return Passed("model", finding);
}

Check HugePages(FileSystem& fs) {
  const std::string text = TextOf(fs, "/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string_view chosen = ChosenWord(text);
  if (chosen == "always" || chosen == "madvise") {
    return Passed("huge pages", fmt::format("transparent ones: {}", chosen));
  }
  return Warned(
      "huge pages", fmt::format("transparent ones: {}", chosen.empty() ? "unknown" : chosen),
      "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` spares look-ups of addresses.");
}

// `needs` null: no model was named, or there is none.
Check Disk(const ModelNeeds* needs) {
  const bool has_file = needs != nullptr;
  const std::string place = has_file ? needs->largest_file : ".";
  const Result<ReadTrial> trial =
      has_file ? TryReading(place, kDiskLimits) : TryFolder(place, kFolderLimits);
  if (!trial && has_file) {
    return Failed("disk", std::string(trial.error().message()),
                  "Check the permissions of the model and its disk.");
  }
  if (!trial) {
    return Warned("disk", std::string(trial.error().message()),
                  "Name a model, and its own disk is measured.");
  }
  const double speed = trial->bytes_per_s();
  const std::string finding = fmt::format(
      "{:.2f} GB/s, {:.0f} MB of {} {}", speed / 1e9, static_cast<double>(trial->n_bytes) / 1e6,
      has_file ? place : "a file of our own in the working folder",
      trial->is_direct ? "read past the cache" : "read through the cache, which may hide the disk");
  constexpr double kSlow = 100e6;
  if (speed >= kSlow || trial->n_bytes < kMiB) return Passed("disk", finding);
  return Warned("disk", finding,
                fmt::format("Loading takes {:.0f} s for each GB from here: a local disk is faster.",
                            1e9 / speed));
}

Check OpenFiles(FileSystem& fs, int32_t n_connections) {
  const std::string text = TextOf(fs, "/proc/self/limits");
  const std::optional<int64_t> limit = OpenFilesLimit(text);
  if (!limit) return Passed("open files", "no limit");
  // Besides connections: model files, the log, bells.
  constexpr int64_t kOwn = 128;
  const std::string finding =
      fmt::format("{} at once, --max-connections is {}", *limit, n_connections);
  const std::string remedy = fmt::format(
      "`ulimit -n {}` before the start, or fewer --max-connections.", n_connections + kOwn);
  if (*limit < kOwn) return Failed("open files", finding, remedy);
  if (*limit < n_connections + kOwn) return Warned("open files", finding, remedy);
  return Passed("open files", finding);
}

Check PortCheck(std::string_view name,
                std::string_view host,
                int32_t port,
                std::string_view option) {
  if (port < 0) return Passed(name, "none is opened");
  const Status status = TryListening(host, port);
  if (status.ok()) return Passed(name, fmt::format("{} port {} is free", host, port));
  return Failed(name, fmt::format("{} port {}: {}", host, port, status.message()),
                fmt::format("End what listens there, or choose another port with {}.", option));
}

Check ClockCheck(Clock& clock) {
  constexpr int kLooks = 1000;
  Time last = clock.Now();
  for (int i = 0; i < kLooks; ++i) {
    const Time now = clock.Now();
    if (now < last) {
      return Failed("clock", "the monotone clock went back",
                    "Choose another clock source: time-outs need it.");
    }
    last = now;
  }
  // No build is older, and certificates are checked against it.
  constexpr int64_t kEarliest_s = 1'767'225'600;  // 2026-01-01
  const int64_t wall_s = clock.Wall().whole_seconds();
  if (wall_s < kEarliest_s) {
    return Failed("clock", fmt::format("the wall clock says {} s after 1970", wall_s),
                  "Set the clock.");
  }
  const std::optional<bool> is_synchronised = ClockIsSynchronised();
  if (is_synchronised.value_or(false))
    return Passed("clock", "monotone; the wall clock is synchronised");
  return Warned("clock",
                is_synchronised ? "monotone; the wall clock is not synchronised"
                                : "monotone; whether the wall clock is synchronised is not known",
                "Run a time service such as chrony, or times in logs and answers drift.");
}

}  // namespace

std::string_view NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "fail";
}

std::vector<Check> CheckUp(const Env& env, const AppOptions& options) {
  FileSystem& fs = env.fs;
  const std::optional<Memory> memory = MemoryOf(fs);
  std::vector<Check> checks = {Cpu(fs), Cores(fs, options.compute.n_threads), MemoryCheck(memory)};
  if (options.model.empty()) {
    checks.push_back(Disk(nullptr));
  } else {
    const Result<ModelNeeds> needs = NeedsOf(fs, options);
    checks.push_back(ModelCheck(options, needs, memory));
    checks.push_back(Disk(needs ? &*needs : nullptr));
  }
  checks.push_back(HugePages(fs));
  checks.push_back(OpenFiles(fs, options.serve.max_connections));
  checks.push_back(PortCheck("port", options.serve.host, options.serve.port, "--port"));
  checks.push_back(PortCheck("admin port", "127.0.0.1", options.serve.admin_port, "--admin-port"));
  checks.push_back(ClockCheck(env.clock));
  return checks;
}

}  // namespace sluice::app
