// TokenCount: one request that asks how many tokens its prompt has (spec http-api.md §6). Its body
// is prepared like any other, but nothing is submitted and no script line taken.

#pragma once

#include "codec/dialect.h"
#include "serve/accounts.h"
#include "serve/connection.h"
#include "serve/task.h"

namespace sluice::serve {

// Answers the request. It holds a place of its key while it runs and costs no tokens. False: the
// connection cannot go on.
Async<bool> CountTokens(Connection& connection,
                        HttpRequest& request,
                        const codec::Dialect& dialect,
                        Account& account);

}  // namespace sluice::serve
