#include "serve/tls.h"

#include <fmt/format.h>

namespace sluice::serve {

namespace ssl = boost::asio::ssl;

Result<std::unique_ptr<ssl::context>> MakeTlsContext(const std::string& certificate_file,
                                                     const std::string& key_file) {
  boost::system::error_code ec;
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                           ssl::context::no_sslv3 | ssl::context::no_tlsv1 |
                           ssl::context::no_tlsv1_1,
                       ec);
  if (!ec) context->use_certificate_chain_file(certificate_file, ec);
  if (ec) {
    return Status::Invalid(fmt::format("--tls-certificate {}: {}", certificate_file, ec.message()));
  }
  context->use_private_key_file(key_file, ssl::context::pem, ec);
  if (ec) return Status::Invalid(fmt::format("--tls-key {}: {}", key_file, ec.message()));
  return context;
}

}  // namespace sluice::serve
