#include "serve/token_count.h"

#include "base/json_writer.h"
#include "serve/preparation.h"

namespace sluice::serve {
namespace {

Status Admit(Net& net, Account& account) {
  if (net.draining) return Overloaded("the server is shutting down");
  return net.accounts.Admit(account, net.Now());
}

}  // namespace

Async<bool> CountTokens(Connection& connection,
                        HttpRequest& request,
                        const codec::Dialect& dialect,
                        Account& account) {
  Net& net = connection.net();
  codec::Prepared prepared;
  Status status = Admit(net, account);
  if (status.ok()) {
    PrepareParams params{.dialect = dialect,
                         .context = net.ContextFor(account.key),
                         .deadline = net.Now() + net.options.request_timeout};
    params.context.script = nullptr;
    Duration spent;
    status = co_await PrepareBody(connection, request, params, prepared, spent);
    net.accounts.Finish(account, 0);
  }
  if (status.code() == ErrorCode::kCancelled) co_return false;
  Response response;
  if (status.ok()) {
    JsonWriter w(response.body);
    w.Object().Key("input_tokens").Int(prepared.answer.n_prompt).EndObject();
  } else {
    response = ErrorResponse(status, dialect, request.id);
  }
  response.headers.emplace_back("x-served-model", net.parts.prepare.model.name);
  bool again = co_await connection.Respond(request, std::move(response));
  co_return again;
}

}  // namespace sluice::serve
