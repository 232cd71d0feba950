// TLS contexts from PEM files. Start-up only.

#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/result.h"

namespace sluice::serve {

// Server side, TLS 1.2 and newer. The error names the file as the operator gave it.
Result<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(
    const std::string& certificate_file, const std::string& key_file);

}  // namespace sluice::serve
