// Workload: what is sent. A job is a conversation of one turn or more; its requests follow from its
// number, and those of later turns from the answers to the earlier ones. Immutable; any thread.

#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "env/file_system.h"
#include "load/answer_reader.h"
#include "load/options.h"
#include "load/trace.h"

namespace sluice::load {

class Workload {
 public:
  // Reads the files that the options name.
  static Result<Workload> Open(FileSystem& files, const LoadOptions& options);

  // Lines of the file; 0: prompts are made up, without end.
  int64_t n_lines() const { return std::ssize(requests_) + std::ssize(conversations_); }

  int32_t n_turns(int64_t number) const;
  // How long the user of a trace waits before this turn.
  Duration think(int64_t number, int32_t turn) const;

  // What has been said in a conversation, as the inside of a JSON list.
  struct History {
    std::string messages;
    AnswerTurn last;
  };
  struct Request {
    std::string body;
    int64_t n_max = 0;  // output tokens that are allowed; 0: not known
    bool keeps_answer = false;
  };
  // The request of a turn. Takes what was answered before from `history` and adds what is said now.
  // An error: the history is above limits::kMaxJsonBytes.
  Result<Request> Next(int64_t number, int32_t turn, History& history) const;

 private:
  explicit Workload(const LoadOptions& options) : options_(options) {}
  Request Synthetic(int64_t number) const;

  LoadOptions options_;
  std::vector<FileRequest> requests_;
  std::vector<TraceConversation> conversations_;
};

}  // namespace sluice::load
