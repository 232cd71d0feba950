// A batch in virtual time: a script answers, the output is a string that may become full. Owned by
// one thread.

#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "batch/output.h"
#include "batch/runner.h"
#include "codec/sample_format_test_impl.h"
#include "codec/script_book.h"
#include "env/sim/sim_clock.h"
#include "wire/scripted_service.h"

namespace sluice::batch {

class StringFile final : public AppendFile {
 public:
  Status Append(ConstBytes bytes) override {
    if (std::ssize(text) + std::ssize(bytes) > n_bytes_max) {
      return {ErrorCode::kInternal, "out: the disk is full"};
    }
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status::Ok();
  }
  Status Sync() override {
    ++n_syncs;
    n_synced = text.size();
    return Status::Ok();
  }
  Status Cut(int64_t n_bytes) override {
    text.resize(static_cast<size_t>(n_bytes));
    return Status::Ok();
  }

  std::string text;
  int64_t n_bytes_max = INT64_MAX;
  int n_syncs = 0;
  size_t n_synced = 0;
};

// Of a service that it hands on to: the most that were there at once, and refusals on demand.
class WatchedService final : public wire::TokenService {
 public:
  explicit WatchedService(wire::ScriptedService& service) : service_(service) {}
  Status Submit(wire::GenerateRequest request, wire::EventQueue& out) override {
    if (n_refusals > 0) {
      --n_refusals;
      return {ErrorCode::kOverloaded, "full"};
    }
    prompts.push_back(*request.prompt);
    seeds.push_back(request.sampling.seed.value_or(0));
    Status status = service_.Submit(std::move(request), out);
    const wire::LoadReport load = service_.Load();
    n_held_max = std::max(n_held_max, load.n_waiting + load.n_running);
    return status;
  }
  Status Check(const wire::GenerateRequest& request) const override {
    return service_.Check(request);
  }
  void Cancel(RequestId id) override { service_.Cancel(id); }
  wire::LoadReport Load() const override { return service_.Load(); }

  int n_refusals = 0;
  int64_t n_held_max = 0;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<uint64_t> seeds;

 private:
  wire::ScriptedService& service_;
};

inline std::string ChatRow(std::string_view id, std::string_view text, std::string_view more = "") {
  return fmt::format(
      "{{\"custom_id\":\"{}\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\","
      "\"body\":{{\"model\":\"deepseek-flash\","
      "\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}]{}}}}}\n",
      id, text, more);
}

struct BatchInVirtualTime {
  BatchInVirtualTime(std::string rows, std::string_view script)
      : input(std::move(rows)), book(std::move(*codec::ScriptBook::Parse(script, 1'000))) {}

  // Runs what `earlier` has not.
  void Run(const std::string& earlier = "") {
    Earlier before = *ReadEarlier(earlier);
    file.text = earlier.substr(0, static_cast<size_t>(before.n_bytes));
    codec::PrepareContext context = {.model = model, .format = codec::SampleFormat()};
    Index index(input, context, std::move(before.done));
    while (!index.complete()) ASSERT_TRUE(index.ReadMore().ok());
    context.script = &book;
    service = std::make_unique<wire::ScriptedService>(
        wire::ScriptedService::Params{.max_running = 3, .max_waiting = 19});
    watched = std::make_unique<WatchedService>(*service);
    watched->n_refusals = n_refusals;
    Runner runner({.index = index,
                   .service = *watched,
                   .context = context,
                   .clock = clock,
                   .out = file,
                   .ready = ready,
                   .n_requests_max = n_requests_max,
                   .n_body_bytes_max = 10'000,
                   .request_timeout = Duration::Seconds(3600),
                   .fingerprint = "sluice-test"});
    while (!runner.done()) {
      const Time a = runner.Step(clock.Now());
      const Time b = service->Step(clock.Now());
      const Time c = runner.Step(clock.Now());
      const Time next = std::min({a, b, c});
      if (next > clock.Now()) clock.AdvanceTo(next);
    }
    totals = runner.totals();
    failure = runner.failure();
  }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (size_t at = 0; at < file.text.size();) {
      const size_t end = file.text.find('\n', at);
      lines.push_back(file.text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }
  std::string LineOf(std::string_view custom_id) const {
    std::string found;
    for (const std::string& line : Lines()) {
      if (line.find(fmt::format("\"custom_id\":\"{}\"", custom_id)) == line.npos) continue;
      EXPECT_EQ(found, "") << "twice: " << custom_id;
      found = line;
    }
    return found;
  }

  const std::string input;
  codec::ScriptBook book;
  codec::ModelCard model = {.name = "deepseek-flash", .n_context = 4'000};
  SimClock clock{Time{1'000'000'000}, WallTime{1'700'000'000'000'000'000}};
  ReadyList ready{Bell{}};
  StringFile file;
  int32_t n_requests_max = 6;
  int n_refusals = 0;
  std::unique_ptr<wire::ScriptedService> service;
  std::unique_ptr<WatchedService> watched;
  Totals totals;
  Status failure;
};

}  // namespace sluice::batch
