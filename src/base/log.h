// The log: sentences with key=value tails, one bounded line each. Never request text, keys or
// addresses.
//
//   Log(LogLevel::kInfo, "listening", {{"port", port}, {"tls", "off"}});
//   2026-11-29T16:00:00.123Z info  listening port=8000 tls=off
//
// Values are escaped, so no value can end a line or forge a field. After InitLog a thread of its
// own writes; when more than limits::kMaxLogQueueLines wait, lines are dropped and counted, so that
// logging never waits for a disk.
//
// Thread-safe, except InitLog and CloseLog. Outside of these two lines go to stderr at once.

#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "base/time.h"

namespace sluice {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };
enum class LogFormat : uint8_t { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;  // lower ones are dropped
  LogFormat format = LogFormat::kText;
  std::string file;  // appended to; empty: stderr
};

// While no other thread logs. May be called again; the lines so far are written first.
Status InitLog(const LogOptions& options);

// While no other thread logs. Writes what waits and ends the log thread.
void CloseLog();

struct LogField {
  using Value = std::variant<std::string_view, int64_t, double, Duration>;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, std::integral auto v) : key(k), value(static_cast<int64_t>(v)) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  LogField(std::string_view k, Duration v) : key(k), value(v) {}

  std::string_view key;  // [a-z0-9_]+
  Value value;           // a Duration is written in milliseconds: took=1.250ms, "took_ms":1.250
};

bool LogEnabled(LogLevel level);
void Log(LogLevel level, std::string_view sentence, std::initializer_list<LogField> fields = {});

// Returns when the lines so far are written, or when nothing could be written for two seconds.
void FlushLog();

}  // namespace sluice
