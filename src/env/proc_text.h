// What Linux says of itself in text, as numbers: files of /proc, /sys and cgroups. Pure. A text
// that does not say it in the form that is expected says nothing; whatever else stands in it is
// passed over.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

// More than any of these files holds: /proc/cpuinfo of a machine with 1,000 cores has 1.5 MB.
inline constexpr int64_t kMaxProcTextBytes = 4 << 20;

// The rest of the first line that begins with `name` and a colon, without the blanks around it:
// "flags : fpu vme" has "fpu vme" for "flags". Empty: there is none.
std::string_view FieldOf(std::string_view text, std::string_view name);

// Bytes of a field in kilobytes: "MemTotal:  24689764 kB".
std::optional<int64_t> KilobyteField(std::string_view text, std::string_view name);

// Whether `word` is one of the words, separated by blanks.
bool HasWord(std::string_view words, std::string_view word);

// How many numbers a list of ranges names: "0-3,8" has 5. Of Cpus_allowed_list.
std::optional<int64_t> CountOfRanges(std::string_view list);

// Cores' worth of time that cpu.max allows: "150000 100000" is 1.5. Absent: no limit, or no answer.
std::optional<double> CoresOfQuota(std::string_view cpu_max);

// memory.max and the like: one number; absent for "max", and for what is as good as no limit.
std::optional<int64_t> CgroupBytes(std::string_view text);

// The number behind `name` in memory.stat: "inactive_file 4096".
std::optional<int64_t> StatBytes(std::string_view text, std::string_view name);

// The path in the unified hierarchy from /proc/self/cgroup: "0::/a/b" has "/a/b". Empty: there is
// none, or it is not one to go down.
std::string_view CgroupPath(std::string_view text);

// The soft limit of open files from /proc/self/limits; absent: unlimited, or no answer.
std::optional<int64_t> OpenFilesLimit(std::string_view text);

// The one in brackets of "always [madvise] never".
std::string_view ChosenWord(std::string_view text);

}  // namespace sluice
