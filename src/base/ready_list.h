// ReadyList: the things of one thread that have news, filled by any thread.
//
// A thing (a connection) embeds a Node. Add() lists it at most once until the owner takes it, and
// wakes the owner only when the list was empty: a burst of events costs one wake-up. Lock-free,
// intrusive, allocates nothing.
//
// Thread-safe: Add by any thread, TakeAll by the owner. A Node must outlive its presence in the
// list.

#pragma once

#include <atomic>

#include "base/bell.h"

namespace sluice {

class ReadyList {
 public:
  struct Node {
    std::atomic<Node*> next{nullptr};
    std::atomic<bool> listed{false};
  };

  // `bell` rings on the adding thread when the list stops being empty.
  explicit ReadyList(Bell bell) : bell_(bell) {}
  ReadyList(const ReadyList&) = delete;

  void Add(Node& node) {
    if (Link(node)) Ring();
  }

  // The two halves of Add, for who must do something between them: true if the owner has to be
  // woken.
  [[nodiscard]] bool Link(Node& node) {
    if (node.listed.exchange(true, std::memory_order_acq_rel)) return false;
    Node* head = head_.load(std::memory_order_relaxed);
    do {
      node.next.store(head, std::memory_order_relaxed);
    } while (!head_.compare_exchange_weak(head, &node, std::memory_order_release,
                                          std::memory_order_relaxed));
    return head == nullptr;
  }
  void Ring() const { bell_.Ring(); }

  // Calls visit(Node&) for each listed node. A node may be added again (and destroyed) once visit
  // has begun.
  template <typename Visit>
  void TakeAll(Visit visit) {
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    while (node != nullptr) {
      Node* next = node->next.load(std::memory_order_relaxed);
      // From here on new news lists the node again; whatever came before is seen by visit. An RMW,
      // so that the producer's exchange and this one are ordered either way.
      node->listed.exchange(false, std::memory_order_acq_rel);
      visit(*node);
      node = next;
    }
  }

 private:
  const Bell bell_;
  std::atomic<Node*> head_{nullptr};
};

}  // namespace sluice
