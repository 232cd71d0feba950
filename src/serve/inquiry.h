// Inquiry: one request that is answered from its body alone (codec/inquiry.h). It is prepared like
// any other, on the same pool and within the same limits, but nothing is submitted and no script
// line taken.

#pragma once

#include "codec/inquiry.h"
#include "serve/accounts.h"
#include "serve/connection.h"
#include "serve/task.h"

namespace sluice::serve {

// Answers the request. It holds a place of its key while it runs and costs no tokens. False: the
// connection cannot go on.
Async<bool> AnswerInquiry(Connection& connection,
                          HttpRequest& request,
                          const codec::Inquiry& inquiry,
                          Account& account);

}  // namespace sluice::serve
