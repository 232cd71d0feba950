#include "serve/stream.h"

#include <algorithm>
#include <boost/asio/ssl/stream.hpp>

#include "base/check.h"

namespace sluice::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// One TLS record.
constexpr size_t kTlsBufferBytes = 16 * 1024;

// getsockopt(TCP_INFO): tells that the peer has closed although unread data waits in front of its
// FIN.
struct TcpInfoOption {
  tcp_info info{};
  template <typename Protocol>
  int level(const Protocol&) const {
    return IPPROTO_TCP;
  }
  template <typename Protocol>
  int name(const Protocol&) const {
    return TCP_INFO;
  }
  template <typename Protocol>
  void* data(const Protocol&) {
    return &info;
  }
  template <typename Protocol>
  size_t size(const Protocol&) const {
    return sizeof(info);
  }
  template <typename Protocol>
  void resize(const Protocol&, size_t) {}
};

}  // namespace

struct Stream::Tls {
  Tls(TcpSocket& socket, asio::ssl::context& context) : stream(socket, context) {}

  enum class Op : uint8_t { kIdle, kPending, kDone };
  asio::ssl::stream<TcpSocket&> stream;
  Op handshake = Op::kIdle;
  error_code handshake_error;
  Op read = Op::kIdle;
  error_code read_error;
  size_t n_read = 0;
  std::unique_ptr<char[]> in;  // allocated while a read is pending or unread
  Op write = Op::kIdle;
  error_code write_error;
  std::string out;
  bool has_said_goodbye = false;
};

Stream::Stream(TcpSocket socket, asio::ssl::context* tls, Signal& wake)
    : socket_(std::move(socket)), wake_(wake) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  // Every write is a whole event; waiting for more would only delay it.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (tls != nullptr) tls_ = std::make_unique<Tls>(socket_, *tls);
}

Stream::~Stream() { SLUICE_CHECK(idle()); }

Io Stream::Handshake() {
  if (!tls_) return Io::kOk;
  Tls& tls = *tls_;
  if (tls.handshake == Tls::Op::kIdle) {
    tls.handshake = Tls::Op::kPending;
    ++n_pending_;
    tls.stream.async_handshake(asio::ssl::stream_base::server, [this](error_code ec) {
      --n_pending_;
      tls_->handshake = Tls::Op::kDone;
      tls_->handshake_error = ec;
      wake_.Raise();
    });
    return Io::kWait;
  }
  if (tls.handshake == Tls::Op::kPending) return Io::kWait;
  return tls.handshake_error ? Io::kClosed : Io::kOk;
}

Io Stream::Read(std::string& into, std::span<char> scratch) {
  if (tls_) return ReadTls(into);
  if (read_armed_) return Io::kWait;
  has_arrived_ = false;
  error_code ec;
  size_t n = socket_.read_some(asio::buffer(scratch.data(), scratch.size()), ec);
  if (!ec) {
    into.append(scratch.data(), n);
    return Io::kOk;
  }
  if (ec != asio::error::would_block && ec != asio::error::interrupted) return Io::kClosed;
  ArmRead();
  return Io::kWait;
}

Io Stream::ReadTls(std::string& into) {
  Tls& tls = *tls_;
  if (tls.read == Tls::Op::kDone) {
    tls.read = Tls::Op::kIdle;
    into.append(tls.in.get(), tls.n_read);
    tls.in.reset();
    return tls.read_error ? Io::kClosed : Io::kOk;
  }
  StartReadTls();
  return Io::kWait;
}

void Stream::StartReadTls() {
  Tls& tls = *tls_;
  if (tls.read != Tls::Op::kIdle) return;
  tls.read = Tls::Op::kPending;
  tls.in = std::make_unique<char[]>(kTlsBufferBytes);
  ++n_pending_;
  tls.stream.async_read_some(asio::buffer(tls.in.get(), kTlsBufferBytes),
                             [this](error_code ec, size_t n) {
                               --n_pending_;
                               tls_->read = Tls::Op::kDone;
                               tls_->read_error = ec;
                               tls_->n_read = n;
                               wake_.Raise();
                             });
}

Io Stream::Discard(std::span<char> scratch) {
  // Also while a watch is pending: a TLS read in front of it may be the only one that is told of
  // the end.
  error_code ec;
  socket_.read_some(asio::buffer(scratch.data(), scratch.size()), ec);
  if (!ec) return Io::kOk;
  if (ec != asio::error::would_block && ec != asio::error::interrupted) return Io::kClosed;
  ArmRead();
  return Io::kWait;
}

Io Stream::Write(std::string_view& rest) {
  if (tls_) return WriteTls(rest);
  while (!rest.empty()) {
    error_code ec;
    size_t n = socket_.write_some(asio::buffer(rest.data(), rest.size()), ec);
    rest.remove_prefix(n);
    if (ec == asio::error::would_block) {
      ArmWrite();
      return Io::kWait;
    }
    if (ec && ec != asio::error::interrupted) return Io::kClosed;
  }
  return Io::kOk;
}

Io Stream::WriteTls(std::string_view& rest) {
  Tls& tls = *tls_;
  if (tls.write == Tls::Op::kPending) return Io::kWait;
  if (tls.write == Tls::Op::kDone) {
    tls.write = Tls::Op::kIdle;
    if (tls.write_error) return Io::kClosed;
  }
  if (rest.empty()) return Io::kOk;
  tls.out.assign(rest.substr(0, kTlsBufferBytes));
  rest.remove_prefix(tls.out.size());
  tls.write = Tls::Op::kPending;
  ++n_pending_;
  asio::async_write(tls.stream, asio::buffer(tls.out), [this](error_code ec, size_t) {
    --n_pending_;
    tls_->write = Tls::Op::kDone;
    tls_->write_error = ec;
    wake_.Raise();
  });
  return Io::kWait;
}

Io Stream::WatchPeer() {
  if (tls_) return WatchPeerTls();
  if (read_armed_) return Io::kWait;
  char byte;
  error_code ec = asio::error::would_block;
  if (has_arrived_) socket_.receive(asio::buffer(&byte, 1), TcpSocket::message_peek, ec);
  if (ec == asio::error::would_block || ec == asio::error::interrupted) {
    ArmRead();
    return Io::kWait;
  }
  if (ec) return Io::kClosed;
  return PeerHasClosed() ? Io::kClosed : Io::kOk;
}

// A client may end TLS without ending TCP, and only reading tells. What is read instead is kept for
// the next Read.
Io Stream::WatchPeerTls() {
  StartReadTls();
  if (tls_->read == Tls::Op::kPending) return Io::kWait;
  if (tls_->read_error) return Io::kClosed;
  return PeerHasClosed() ? Io::kClosed : Io::kOk;
}

bool Stream::PeerHasClosed() {
  TcpInfoOption option;
  error_code ec;
  socket_.get_option(option, ec);
  return ec || option.info.tcpi_state == TCP_CLOSE_WAIT || option.info.tcpi_state == TCP_CLOSE;
}

void Stream::ArmRead() {
  if (read_armed_) return;
  read_armed_ = true;
  ++n_pending_;
  socket_.async_wait(TcpSocket::wait_read, [this](error_code) {
    --n_pending_;
    read_armed_ = false;
    has_arrived_ = true;
    wake_.Raise();
  });
}

void Stream::ArmWrite() {
  if (write_armed_) return;
  write_armed_ = true;
  ++n_pending_;
  socket_.async_wait(TcpSocket::wait_write, [this](error_code) {
    --n_pending_;
    write_armed_ = false;
    wake_.Raise();
  });
}

// Tells the peer that nothing was cut off (RFC 9112 §9.8). What the socket does not take at once is
// not waited for.
void Stream::SendCloseNotify() {
  if (!tls_ || tls_->has_said_goodbye || tls_->write == Tls::Op::kPending) return;
  if (tls_->handshake != Tls::Op::kDone || tls_->handshake_error) return;
  tls_->has_said_goodbye = true;
  ++n_pending_;
  tls_->stream.async_shutdown([this](error_code) {
    --n_pending_;
    wake_.Raise();
  });
}

void Stream::CloseWrite() {
  SendCloseNotify();
  error_code ignored;
  socket_.shutdown(TcpSocket::shutdown_send, ignored);
}

void Stream::Close() {
  SendCloseNotify();
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace sluice::serve
