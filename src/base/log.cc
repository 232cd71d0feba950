#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <cmath>
#include <cstdio>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/utf8.h"

namespace sluice {
namespace {

constexpr Duration kFlushTimeout = Duration::Seconds(2);

std::unique_ptr<spdlog::formatter> MakeFormatter(LogFormat format) {
  const char* pattern = format == LogFormat::kText ? "%Y-%m-%dT%H:%M:%S.%eZ %v"
                                                   : R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ",%v})";
  return std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc, "\n");
}

// What the log thread writes to. Counts lines from Log() to the disk, so that FlushLog can wait for
// them and Log can drop one instead of letting spdlog's queue overrun.
class CountedSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  CountedSink(std::unique_ptr<spdlog::sinks::sink> target, LogFormat format)
      : target_(std::move(target)) {
    target_->set_formatter(MakeFormatter(format));
  }

  // Any thread. False: the queue is full.
  bool TakePlace() {
    MutexLock lock(mu_);
    if (n_posted_ - n_written_ >= limits::kMaxLogQueueLines) return false;
    ++n_posted_;
    return true;
  }

  // Any thread. Gives up when nothing was written for a while.
  void AwaitWritten() {
    MutexLock lock(mu_);
    const int64_t n_wanted = n_posted_;
    ++n_awaiting_;
    while (n_written_ < n_wanted && written_.WaitFor(mu_, kFlushTimeout)) {
    }
    --n_awaiting_;
  }

 protected:
  // The log thread.
  void sink_it_(const spdlog::details::log_msg& msg) override {
    try {
      target_->log(msg);
      if (MustFlush()) target_->flush();
    } catch (...) {  // a full disk must not end anything
      metrics::Add(metrics::kLogLinesDropped);
    }
    MutexLock lock(mu_);
    ++n_written_;
    if (n_awaiting_ > 0) written_.NotifyAll();
  }
  void flush_() override {}

 private:
  // While more lines wait they share one write.
  bool MustFlush() {
    MutexLock lock(mu_);
    return n_posted_ - n_written_ == 1 || n_awaiting_ > 0;
  }

  const std::unique_ptr<spdlog::sinks::sink> target_;

  Mutex mu_;
  CondVar written_;
  int64_t n_posted_ SLUICE_GUARDED_BY(mu_) = 0;
  int64_t n_written_ SLUICE_GUARDED_BY(mu_) = 0;
  int32_t n_awaiting_ SLUICE_GUARDED_BY(mu_) = 0;  // threads in AwaitWritten
};

// One InitLog's worth of log.
struct Sinks {
  Sinks(std::unique_ptr<spdlog::sinks::sink> target, LogFormat f)
      : format(f), sink(std::make_shared<CountedSink>(std::move(target), f)) {
    constexpr size_t kThreads = 1;
    pool = std::make_shared<spdlog::details::thread_pool>(limits::kMaxLogQueueLines, kThreads);
    logger = std::make_shared<spdlog::async_logger>("sluice", sink, pool,
                                                    spdlog::async_overflow_policy::overrun_oldest);
    logger->set_level(spdlog::level::trace);  // Log() has filtered already
  }

  const LogFormat format;
  // Shared because spdlog's interfaces ask for it. The pool goes first, and with it the thread that
  // uses the other two.
  std::shared_ptr<CountedSink> sink;
  std::shared_ptr<spdlog::async_logger> logger;
  std::shared_ptr<spdlog::details::thread_pool> pool;
};

std::atomic<LogLevel> level_min{LogLevel::kInfo};
std::unique_ptr<Sinks> sinks;  // null: straight to stderr

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "";
}

// The next character that JSON lets through and a terminal or a log reader may obey: DEL, C1
// controls, U+2028, U+2029.
size_t FindHidden(std::string_view text, size_t from) {
  for (size_t i = from; i < text.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (c == 0x7F || (c == 0xC2 && next >= 0x80 && next < 0xA0)) return i;
    if (text.substr(i, 3) == "\u2028" || text.substr(i, 3) == "\u2029") return i;
  }
  return text.size();
}

void AppendEscaped(std::string& out, std::string_view text) {
  if (text.size() > limits::kMaxLogValueBytes) {
    text = text.substr(0, limits::kMaxLogValueBytes);
    text.remove_suffix(static_cast<size_t>(IncompleteTail(text)));
  }
  for (size_t at = 0; at < text.size();) {
    size_t hidden = FindHidden(text, at);
    AppendJsonEscaped(out, text.substr(at, hidden - at));
    if (hidden == text.size()) return;
    unsigned char lead = static_cast<unsigned char>(text[hidden]);
    unsigned char last = static_cast<unsigned char>(text[hidden + (lead == 0x7F   ? 0
                                                                   : lead == 0xC2 ? 1
                                                                                  : 2)]);
    out += lead == 0xE2 ? (last == 0xA8 ? "\\u2028" : "\\u2029") : fmt::format("\\u00{:02x}", last);
    at = hidden + (lead == 0x7F ? 1 : lead == 0xC2 ? 2 : 3);
  }
}

void AppendQuoted(std::string& out, std::string_view text) {
  out.push_back('"');
  AppendEscaped(out, text);
  out.push_back('"');
}

bool IsBareWord(std::string_view text) {
  constexpr std::string_view kSpecial = " =\"\\";
  for (char c : text) {
    if (c <= ' ' || c > '~' || kSpecial.find(c) != std::string_view::npos) return false;
  }
  return !text.empty();
}

struct FieldWriter {
  std::string& out;
  LogFormat format;
  std::string_view key;

  void operator()(std::string_view text) const {
    Begin("");
    if (format == LogFormat::kText && IsBareWord(text)) {
      out.append(text.substr(0, limits::kMaxLogValueBytes));
    } else {
      AppendQuoted(out, text);
    }
  }
  void operator()(int64_t value) const {
    Begin("");
    out += fmt::format("{}", value);
  }
  void operator()(double value) const {
    Begin("");
    out += std::isfinite(value) ? fmt::format("{:.6g}", value) : std::string("null");
  }
  void operator()(Duration value) const {
    Begin("_ms");
    out += fmt::format("{:.3f}", value.millis());
    if (format == LogFormat::kText) out += "ms";
  }

 private:
  void Begin(std::string_view json_suffix) const {
    if (format == LogFormat::kText) {
      out += fmt::format(" {}=", key);
    } else {
      out += fmt::format(",\"{}{}\":", key, json_suffix);
    }
  }
};

// The line without its time.
std::string Compose(LogFormat format,
                    LogLevel level,
                    std::string_view sentence,
                    std::initializer_list<LogField> fields) {
  constexpr size_t kRest = 64;  // time, "cut", the end of the line
  constexpr size_t kSizeMax = limits::kMaxLogLineBytes - kRest;
  std::string line;
  if (format == LogFormat::kText) {
    line = fmt::format("{:<5} ", NameOf(level));
    AppendEscaped(line, sentence);
  } else {
    line = fmt::format("\"level\":\"{}\",\"message\":", NameOf(level));
    AppendQuoted(line, sentence);
  }
  int64_t n_cut = 0;
  for (const LogField& field : fields) {
    const size_t size_before = line.size();
    std::visit(FieldWriter{.out = line, .format = format, .key = field.key}, field.value);
    if (line.size() <= kSizeMax) continue;
    line.resize(size_before);
    ++n_cut;
  }
  if (n_cut > 0) FieldWriter{.out = line, .format = format, .key = "cut"}(n_cut);
  return line;
}

void WriteNow(std::string_view line) {
  spdlog::details::log_msg msg("", spdlog::level::info, line);
  spdlog::memory_buf_t text;
  MakeFormatter(LogFormat::kText)->format(msg, text);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

Status InitLog(const LogOptions& options) {
  std::unique_ptr<spdlog::sinks::sink> target;
  if (options.file.empty()) {
    target = std::make_unique<spdlog::sinks::stderr_sink_st>();
  } else {
    try {
      target = std::make_unique<spdlog::sinks::basic_file_sink_st>(options.file);
    } catch (const spdlog::spdlog_ex&) {
      return Status::Invalid(
          fmt::format("the log file {} cannot be opened for writing", options.file));
    }
  }
  FlushLog();
  sinks = std::make_unique<Sinks>(std::move(target), options.format);
  level_min.store(options.level, std::memory_order_relaxed);
  return Status::Ok();
}

void CloseLog() {
  FlushLog();
  sinks.reset();
  level_min.store(LogOptions().level, std::memory_order_relaxed);
}

bool LogEnabled(LogLevel level) { return level >= level_min.load(std::memory_order_relaxed); }

void Log(LogLevel level, std::string_view sentence, std::initializer_list<LogField> fields) {
  if (!LogEnabled(level)) return;
  if (sinks == nullptr) return WriteNow(Compose(LogFormat::kText, level, sentence, fields));
  if (!sinks->sink->TakePlace()) {
    metrics::Add(metrics::kLogLinesDropped);
    return;
  }
  std::string line = Compose(sinks->format, level, sentence, fields);
  sinks->logger->log(spdlog::level::info, spdlog::string_view_t(line));
}

void FlushLog() {
  if (sinks != nullptr) sinks->sink->AwaitWritten();
}

}  // namespace sluice
