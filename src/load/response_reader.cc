#include "load/response_reader.h"

#include <fmt/format.h>

#include <boost/beast/http/basic_parser.hpp>
#include <cctype>

#include "base/limits.h"

namespace sluice::load {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using Text = boost::beast::string_view;

// What is left of a chunked body before it is done is never shorter than its end, 0 CRLF CRLF, and
// Beast 1.81 fails an assertion when it is given less of what may be one.
constexpr size_t kLeastChunkedRest = 5;
bool MayBeAnUnfinishedEnd(std::string_view rest) {
  return rest.size() < kLeastChunkedRest && rest.starts_with('0');
}

}  // namespace

class ResponseReader::Parser : public http::basic_parser<false> {
 public:
  int status = 0;
  bool is_event_stream = false;
  std::string* body = nullptr;  // while feeding

 private:
  void on_request_impl(http::verb, Text, Text, int, error_code&) override {}
  void on_response_impl(int code, Text, int, error_code& ec) override {
    status = code;
    if (code < 200) ec = http::error::bad_status;  // nobody asked for an interim answer
  }
  void on_field_impl(http::field name, Text, Text value, error_code&) override {
    if (name != http::field::content_type) return;
    std::string type(value.data(), value.size());
    for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    is_event_stream = type.starts_with("text/event-stream");
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(Text piece, error_code&) override {
    body->append(piece.data(), piece.size());
    return piece.size();
  }
  void on_chunk_header_impl(std::uint64_t, Text, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, Text piece, error_code&) override {
    body->append(piece.data(), piece.size());
    return piece.size();
  }
  void on_finish_impl(error_code&) override {}
};

ResponseReader::ResponseReader() : parser_(std::make_unique<Parser>()) {
  parser_->header_limit(static_cast<std::uint32_t>(limits::kMaxResponseHeadBytes));
  parser_->body_limit(boost::none);  // it is not kept
  parser_->eager(false);
}
ResponseReader::~ResponseReader() = default;
ResponseReader::ResponseReader(ResponseReader&&) noexcept = default;
ResponseReader& ResponseReader::operator=(ResponseReader&&) noexcept = default;

Result<size_t> ResponseReader::Feed(std::string_view bytes, std::string& body) {
  parser_->body = &body;
  size_t n_taken = 0;
  while (!parser_->is_done() && n_taken < bytes.size()) {
    const std::string_view rest = bytes.substr(n_taken);
    if (parser_->is_header_done() && parser_->chunked() && MayBeAnUnfinishedEnd(rest)) break;
    error_code ec;
    const size_t n = parser_->put(boost::asio::const_buffer(rest.data(), rest.size()), ec);
    n_taken += n;
    if (ec == http::error::need_more) {
      // What Beast leaves is an unfinished line.
      if (static_cast<int64_t>(bytes.size() - n_taken) <= limits::kMaxResponseHeadBytes) break;
      ec = http::error::header_limit;
    }
    if (ec) return Status::Invalid(fmt::format("malformed HTTP response: {}", ec.message()));
    if (n == 0) break;
  }
  return n_taken;
}

Status ResponseReader::End() {
  error_code ec;
  if (!parser_->is_done() && parser_->is_header_done()) {
    std::string nothing;
    parser_->body = &nothing;
    parser_->put_eof(ec);
  }
  if (!ec && parser_->is_done()) return Status::Ok();
  return Status(ErrorCode::kCancelled, "the connection ended inside the answer");
}

bool ResponseReader::head_done() const { return parser_->is_header_done(); }
bool ResponseReader::done() const { return parser_->is_done(); }
int ResponseReader::status() const { return parser_->status; }
bool ResponseReader::is_event_stream() const { return parser_->is_event_stream; }
bool ResponseReader::keep_alive() const { return parser_->keep_alive(); }

}  // namespace sluice::load
