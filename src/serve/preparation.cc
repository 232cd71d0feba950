#include "serve/preparation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/metrics.h"
#include "base/work_pool.h"

namespace sluice::serve {
namespace {

// What a client is told to wait when the server as a whole is full.
constexpr Duration kOverloadRetry = Duration::Seconds(1);

// Bodies up to this size are prepared on the net thread: decoding 4 KiB takes about as long as
// waking another thread and being woken by it (10 to 20 us), and two hand-overs less are felt when
// thousands of small requests come a second.
constexpr size_t kInlinePrepBytes = 4096;
// Bodies above this, and compressed ones, have a pool of their own: tens of megabytes of JSON take
// more than a second, and nobody else should wait for them.
constexpr size_t kLargeBodyBytes = 256 * 1024;

// While nothing was sent yet: whether there is a reason to stop waiting.
Status WhyEnd(Connection& connection, Time deadline) {
  Net& net = connection.net();
  connection.set_wake_at(deadline);
  if (net.stopping) return Overloaded("the server is shutting down");
  if (connection.PeerIsGone()) return Status(ErrorCode::kCancelled, "the client is gone");
  if (net.Now() < deadline) return Status::Ok();
  return Status(ErrorCode::kDeadlineExceeded, "the request was not prepared by its deadline");
}

Status Took(Connection& connection,
            HttpRequest& request,
            Result<PrepOutput> result,
            PrepOutput& output) {
  request.body = std::string();
  if (!result) return std::move(result.error());
  output = std::move(*result);
  // A compressed body may become a prompt a thousand times its size.
  const codec::AnswerSpec& answer = output.prepared.answer;
  size_t n_bytes = answer.echo.size() + answer.keep.input.size() + output.answer.body.size();
  n_bytes += answer.prompt_scores.prompt.size() * sizeof(TokenId);
  const auto& prompt = output.prepared.generate.prompt;
  if (prompt != nullptr) n_bytes += prompt->size() * sizeof(TokenId);
  return connection.Charge(request, static_cast<int64_t>(n_bytes));
}

}  // namespace

Status Overloaded(std::string message) {
  Status status(ErrorCode::kOverloaded, std::move(message));
  status.set_retry_after(kOverloadRetry);
  return status;
}

void AddModelHeaders(const Net& net, const std::vector<std::string>& ignored, Headers& headers) {
  headers.emplace_back("x-served-model", net.parts.prepare.model.name);
  if (ignored.empty()) return;
  headers.emplace_back("x-sluice-ignored-fields", fmt::format("{}", fmt::join(ignored, ", ")));
}

namespace {

// A few words may stand for megabytes: of a Responses body for the history that is stored, and of
// any other for turns of the assistant that are remembered. A role can also be spelled with
// escapes.
bool MayHaveTurns(std::string_view body) {
  return body.find("assistant") != body.npos || body.find("\\u") != body.npos;
}

}  // namespace

Async<Status> PrepareBody(Connection& connection,
                          HttpRequest& request,
                          const PrepareParams& params,
                          PrepOutput& output,
                          Duration& spent) {
  Net& net = connection.net();
  Signal& wake = connection.wake();
  const std::string& encoding = request.head().content_encoding;
  const bool may_grow = params.dialect.api == codec::Api::kResponses || MayHaveTurns(request.body);
  if (encoding.empty() && request.body.size() <= kInlinePrepBytes && !may_grow) {
    Time begin = net.Now();
    Result<PrepOutput> result =
        PrepareNow(params.dialect, params.inquiry, request.body, params.context);
    spent = net.Now() - begin;
    metrics::Observe(metrics::kPrep, spent.seconds());
    co_return Took(connection, request, std::move(result), output);
  }
  bool is_large = !encoding.empty() || request.body.size() > kLargeBodyBytes;
  WorkPool& pool = is_large ? net.parts.prep_large : net.parts.prep;
  PrepJob::Params job_params{.dialect = params.dialect,
                             .inquiry = params.inquiry,
                             .context = params.context,
                             .encoding = encoding,
                             .body = std::move(request.body),
                             .n_charged_bytes = request.charged_bytes,
                             .waiter = connection};
  auto owned = std::make_unique<PrepJob>(net, std::move(job_params));
  if (!pool.TryPost(*owned)) co_return Overloaded("too many requests wait to be prepared");
  PrepJob* job = owned.release();  // shared with the prep thread from here on
  while (!job->done()) {
    Status end = WhyEnd(connection, params.deadline);
    if (!end.ok() && job->Abandon()) co_return end;
    if (job->is_finishing()) net.ready.Add(connection);
    if (!job->done()) co_await wake;
  }
  owned.reset(job);
  spent = owned->spent();
  metrics::Observe(metrics::kPrep, spent.seconds());
  co_return Took(connection, request, owned->TakeResult(), output);
}

}  // namespace sluice::serve
