// Stream: one TCP connection, with or without TLS, as non-blocking attempts. An attempt that
// answers kWait has arranged for `wake` to be raised when another may succeed. No coroutine inside,
// so that every wait of a connection is one place. Owned by the net thread.
//
// 1. At most one read watch and one write watch are pending; Close ends them, and idle() says that
// nothing can call back.
// 2. Bytes of a TLS write are copied: the caller may give up while it is pending.

#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "serve/task.h"

namespace sluice::serve {

using TcpSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;
using TcpAcceptor = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp,
                                                       boost::asio::io_context::executor_type>;

enum class Io : uint8_t {
  kOk,
  kWait,
  kClosed,  // end of file, reset or protocol error: the peer is gone for good
};

class Stream {
 public:
  // `tls` null: plain. `wake` must outlive the stream.
  Stream(TcpSocket socket, boost::asio::ssl::context* tls, Signal& wake);
  ~Stream();
  Stream(const Stream&) = delete;

  // TLS: until it is kOk, nothing else may be called but Close. Plain: kOk.
  Io Handshake();

  // Appends what has arrived to `into`, through `scratch`.
  Io Read(std::string& into, std::span<char> scratch);

  // Writes from the front of `rest` and removes what was taken. kOk: `rest` is empty.
  Io Write(std::string_view& rest);

  // While a request runs nobody reads. kClosed: the peer has closed or reset, as far as can be
  // seen; kOk: data waits, so an end behind it cannot be watched for (ask again now and then);
  // kWait: `wake` will be raised.
  Io WatchPeer();

  // No more bytes to the peer, which is told; it may still send. Nothing but Discard and Close may
  // follow.
  void CloseWrite();
  // Reads what the peer still sends, under TLS undecrypted, and drops it.
  Io Discard(std::span<char> scratch);
  // Ends everything. Pending watches call back soon; wait for idle() before destruction.
  void Close();
  bool is_tls() const { return tls_ != nullptr; }
  bool idle() const { return n_pending_ == 0; }

 private:
  struct Tls;

  void ArmRead();
  void ArmWrite();
  Io WatchPeerTls();
  void StartReadTls();
  Io ReadTls(std::string& into);
  Io WriteTls(std::string_view& rest);
  bool PeerHasClosed();
  void SendCloseNotify();

  TcpSocket socket_;
  std::unique_ptr<Tls> tls_;
  Signal& wake_;
  int32_t n_pending_ = 0;  // callbacks that will still come
  bool read_armed_ = false;
  bool has_arrived_ = false;  // the read watch has fired since the last read: bytes, or the end
  bool write_armed_ = false;
};

}  // namespace sluice::serve
