#include "serve/request_parser.h"

#include <fmt/format.h>

#include <boost/beast/http/parser.hpp>
#include <cctype>

#include "base/check.h"
#include "base/limits.h"

namespace sluice::serve {
namespace {

namespace http = boost::beast::http;

// A string body that grows with what arrives: Beast's own reserves what the client merely
// announces.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::beast::error_code& ec) { ec = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::beast::error_code& ec) {
      std::size_t n = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers);
           it != boost::asio::buffer_sequence_end(buffers); ++it) {
        boost::asio::const_buffer piece = *it;
        body_.append(static_cast<const char*>(piece.data()), piece.size());
        n += piece.size();
      }
      ec = {};
      return n;
    }
    void finish(boost::beast::error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

// Chunks of one byte take six on the wire; what is above that is extensions, which mean nothing to
// us and have no other bound.
constexpr int64_t kFramingPerByte = 8;

// What is left of a chunked body before it is done is never shorter than its end, 0 CRLF CRLF, and
// Beast 1.81 fails an assertion when it is given less of what may be one.
constexpr size_t kLeastChunkedRest = 5;
bool MayBeAnUnfinishedEnd(std::string_view rest) {
  return rest.size() < kLeastChunkedRest && rest.starts_with('0');
}

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string QueryOf(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  return mark == std::string_view::npos ? "" : std::string(target.substr(mark + 1));
}

// RFC 9112 §3.2: origin form, absolute form (what proxies send) or "*".
std::string PathOf(std::string_view target) {
  std::string scheme = Lower(target.substr(0, std::string_view("https://").size()));
  if (scheme.starts_with("http://") || scheme == "https://") {
    size_t end = target.find_first_of("/?#", target.find("//") + 2);
    target = end == std::string_view::npos ? std::string_view() : target.substr(end);
    if (!target.starts_with('/')) return "/";
  }
  return std::string(target.substr(0, target.find_first_of("?#")));
}

}  // namespace

struct RequestParser::State {
  explicit State(const Limits& given) : max(given) {
    parser.header_limit(static_cast<std::uint32_t>(max.header_bytes));
    parser.body_limit(boost::none);
    parser.eager(false);
  }
  Status ReadHead();
  Status Refuse(boost::beast::error_code ec) const;
  bool FramingIsExcessive() const {
    int64_t n_body = static_cast<int64_t>(parser.get().body().size());
    return n_framed_bytes > kFramingPerByte * n_body + max.header_bytes;
  }

  const Limits max;
  http::request_parser<GrowingBody> parser;
  int64_t n_head_bytes = 0;
  int64_t n_framed_bytes = 0;  // of the body: content, chunk heads, extensions, trailers
  RequestHead head;
};

RequestParser::RequestParser(const Limits& limits) : state_(std::make_unique<State>(limits)) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;

Status RequestParser::State::Refuse(boost::beast::error_code ec) const {
  if (ec == http::error::header_limit) {
    return Status(ErrorCode::kHeaderTooLarge,
                  fmt::format("request line and headers exceed {} bytes", max.header_bytes));
  }
  if (ec == http::error::body_limit) {
    return Status(ErrorCode::kTooLarge,
                  fmt::format("the request body exceeds {} bytes", max.body_bytes));
  }
  return Status::Invalid(fmt::format("malformed HTTP request: {}", ec.message()));
}

Status RequestParser::State::ReadHead() {
  const auto& message = parser.get();
  int n_fields = 0;
  int n_hosts = 0;
  for (const auto& field : message) {
    if (++n_fields > limits::kMaxHeaders) {
      return Status(ErrorCode::kHeaderTooLarge,
                    fmt::format("more than {} header fields", limits::kMaxHeaders));
    }
    n_hosts += field.name() == http::field::host;
  }
  int version = static_cast<int>(message.version());
  if (version != 10 && version != 11) return Status::Invalid("HTTP version must be 1.0 or 1.1");
  // Anything but plain chunked could be framed differently by the proxy in front of us (RFC 9112
  // §6.1, §6.3).
  auto coding = message.find(http::field::transfer_encoding);
  if (coding != message.end()) {
    bool is_chunked =
        Lower(Trim(View(coding->value()))) == "chunked" && message.count(coding->name()) == 1;
    if (!is_chunked || version == 10 || message.count(http::field::content_length) > 0) {
      return Status::InvalidField("Transfer-Encoding",
                                  "must be chunked, once, without Content-Length, in HTTP/1.1");
    }
  }
  if (n_hosts > 1 || (n_hosts == 0 && version == 11)) {
    return Status::InvalidField("Host", "an HTTP/1.1 request must have exactly one Host header");
  }
  if (static_cast<int64_t>(message.target().size()) > limits::kMaxUrlBytes) {
    return Status(ErrorCode::kHeaderTooLarge,
                  fmt::format("the request target exceeds {} bytes", limits::kMaxUrlBytes));
  }
  head.method = std::string(View(message.method_string()));
  head.path = PathOf(View(message.target()));
  head.query = QueryOf(View(message.target()));
  head.http_minor = version - 10;
  head.keep_alive = message.keep_alive();
  head.expects_continue =
      Lower(View(message[http::field::expect])) == "100-continue" && version == 11;
  head.host = std::string(View(message[http::field::host]));
  head.origin = std::string(View(message[http::field::origin]));
  std::string_view type = View(message[http::field::content_type]);
  head.content_type = Lower(Trim(type.substr(0, type.find(';'))));
  head.content_encoding = Lower(Trim(View(message[http::field::content_encoding])));
  if (head.content_encoding == "identity") head.content_encoding.clear();
  std::string_view authorization = View(message[http::field::authorization]);
  if (Lower(authorization.substr(0, 7)) == "bearer ")
    head.bearer = std::string(Trim(authorization.substr(7)));
  head.api_key = std::string(View(message["x-api-key"]));
  head.if_none_match = std::string(View(message[http::field::if_none_match]));
  head.accepts_html =
      Lower(View(message[http::field::accept])).find("text/html") != std::string::npos;
  head.is_anthropic =
      message.find("anthropic-version") != message.end() || head.path.starts_with("/anthropic/");

  if (auto length = parser.content_length()) {
    if (*length > static_cast<std::uint64_t>(max.body_bytes)) {
      return Status(
          ErrorCode::kTooLarge,
          fmt::format("the request body of {} bytes exceeds {} bytes", *length, max.body_bytes));
    }
    head.content_length = static_cast<int64_t>(*length);
  }
  head.has_body = parser.chunked() || head.content_length > 0;
  parser.body_limit(static_cast<std::uint64_t>(max.body_bytes));
  return Status::Ok();
}

Result<size_t> RequestParser::Feed(std::string_view bytes) {
  State& s = *state_;
  size_t n_taken = 0;
  while (!s.parser.is_done()) {
    bool had_head = s.parser.is_header_done();
    if (had_head && s.parser.chunked() && MayBeAnUnfinishedEnd(bytes.substr(n_taken)))
      return n_taken;
    boost::beast::error_code ec;
    size_t n =
        s.parser.put(boost::asio::const_buffer(bytes.data() + n_taken, bytes.size() - n_taken), ec);
    n_taken += n;
    // Beast counts request line and fields apart.
    if (!had_head) s.n_head_bytes += static_cast<int64_t>(n);
    if (s.n_head_bytes > s.max.header_bytes) return s.Refuse(http::error::header_limit);
    if (had_head) s.n_framed_bytes += static_cast<int64_t>(n);
    if (s.FramingIsExcessive()) {
      return Status::Invalid("the chunked body has far more framing than content");
    }
    if (ec == http::error::need_more) {
      // What Beast leaves is an unfinished line: of the head, a chunk header or a trailer.
      if (static_cast<int64_t>(bytes.size() - n_taken) > s.max.header_bytes)
        return s.Refuse(http::error::header_limit);
      return n_taken;
    }
    if (ec) return s.Refuse(ec);
    if (!had_head && s.parser.is_header_done()) {
      SLUICE_TRY(s.ReadHead());
      return n_taken;
    }
    if (n == 0) return n_taken;
  }
  return n_taken;
}

bool RequestParser::head_done() const { return state_->parser.is_header_done(); }
bool RequestParser::done() const { return state_->parser.is_done(); }
const RequestHead& RequestParser::head() const {
  SLUICE_CHECK(head_done());
  return state_->head;
}
int64_t RequestParser::body_size() const {
  return static_cast<int64_t>(state_->parser.get().body().size());
}
std::string RequestParser::TakeBody() {
  SLUICE_CHECK(done());
  return std::move(state_->parser.get().body());
}

}  // namespace sluice::serve
