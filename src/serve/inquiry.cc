#include "serve/inquiry.h"

#include "serve/preparation.h"

namespace sluice::serve {
namespace {

Status Admit(Net& net, Account& account) {
  if (net.draining) return Overloaded("the server is shutting down");
  return net.accounts.Admit(account, net.Now());
}

}  // namespace

Async<bool> AnswerInquiry(Connection& connection,
                          HttpRequest& request,
                          const codec::Inquiry& inquiry,
                          Account& account) {
  Net& net = connection.net();
  const codec::Dialect& dialect = codec::DialectOf(inquiry.api);
  PrepOutput output;
  Status status = Admit(net, account);
  if (status.ok()) {
    PrepareParams params{.dialect = dialect,
                         .context = net.ContextFor(account),
                         .deadline = net.Now() + net.options.request_timeout,
                         .inquiry = &inquiry};
    params.context.script = nullptr;
    Duration spent;
    status = co_await PrepareBody(connection, request, params, output, spent);
    net.accounts.Finish(account, 0);
  }
  if (status.code() == ErrorCode::kCancelled) co_return false;
  Response response;
  if (status.ok()) {
    response.body = std::move(output.answer.body);
  } else {
    response = ErrorResponse(status, dialect, request.id);
  }
  AddModelHeaders(net, output.answer.ignored_fields, response.headers);
  bool again = co_await connection.Respond(request, std::move(response));
  co_return again;
}

}  // namespace sluice::serve
