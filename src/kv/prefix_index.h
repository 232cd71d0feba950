// PrefixIndex: which blocks hold the KV of which prefixes. A tree: a node is a block of tokens
// behind those of its ancestors, found by its key. Full nodes may have children; the last block of
// a prompt or an output may be a partial node, of which others can copy rows.
//
// 1. A node is evicted before its parent, so what is found is always a whole prefix.
// 2. A pin keeps a node and its ancestors; nothing else does.
// 3. Evicted is what was used longest ago, of the nodes without pin and without children.
//
// Knows no bytes and no pool: it owns the blocks that it was given, until Evict gives them back.
// Owned by the engine thread.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "kv/block_key.h"
#include "kv/layout.h"

namespace sluice::kv {

using NodeId = Id<struct NodeIdTag, int32_t>;  // -1: none

class PrefixIndex {
 public:
  static constexpr NodeId kNone{-1};
  // Children that are compared token by token for a partial match, the newest first.
  static constexpr int32_t kMaxPartialLooks = 16;

  // What is there of a sequence whose first block's parent is `root` and whose tokens begin so. At
  // most `n_max` tokens.
  struct Match {
    NodeId node = kNone;     // the last full block; kNone: there is none
    int32_t n_full = 0;      // tokens, a multiple of kBlockTokens
    NodeId partial = kNone;  // whose block begins with the n_partial next ones
    int32_t n_partial = 0;   // tokens, below kBlockTokens and even
    bool parts = false;      // there is a full block, and what is known behind it goes another way
    int32_t n_tokens() const { return n_full + n_partial; }
  };
  // Counts as a use of what it finds.
  Match Find(const BlockKey& root, std::span<const TokenId> tokens, int32_t n_max);

  // The blocks of `node` and its ancestors, first to last.
  std::vector<BlockId> BlocksOf(NodeId node) const;
  BlockId block(NodeId node) const { return At(node).block; }
  const BlockKey& key(NodeId node) const { return At(node).key; }

  // The node of that key; kNone: it is not there.
  NodeId Lookup(const BlockKey& key) const;
  // The full node of these kBlockTokens tokens behind `parent`; kNone: it is not there.
  NodeId FindChild(const BlockKey& root, NodeId parent, std::span<const TokenId> tokens) const;

  // Takes the block. `parent`: the full node before it, kNone for a first block, whose parent key
  // is `root`. Less than kBlockTokens tokens make a partial node. HasChild must be false. A partial
  // sibling whose tokens these go on from is replaced.
  NodeId Insert(const BlockKey& root,
                NodeId parent,
                std::span<const TokenId> tokens,
                BlockId block);
  // Whether a child of `parent` begins with these tokens.
  bool HasChild(const BlockKey& root, NodeId parent, std::span<const TokenId> tokens) const;

  void Pin(NodeId node);
  void Unpin(NodeId node);

  // Blocks in nodes, and those of them that Evict could give back one after the other.
  int32_t n_blocks() const { return n_blocks_; }
  int32_t n_evictable() const { return n_blocks_ - n_held_; }
  // The block of the node that went, and its name if it was a full one. One must be evictable.
  struct Evicted {
    BlockId block;
    std::optional<BlockKey> key;
  };
  Evicted Evict();

  // For Cache::CheckInvariants: every node's block and pins.
  struct View {
    NodeId node;
    NodeId parent;
    BlockId block;
    int32_t n_pins;
    int32_t n_children;
  };
  std::vector<View> nodes() const;
  // Blocks of nodes that a longer one has replaced; Evict gives them back first.
  std::span<const BlockId> dropped() const { return dropped_; }

 private:
  struct Node {
    BlockKey key;       // of a root: the root key; unused in partial nodes
    NodeId parent{-1};  // of a first block: the root's node
    BlockId block{-1};  // -1: a root
    int32_t n_tokens = 0;
    std::array<TokenId, kBlockTokens> tokens;
    NodeId first_child{-1};       // the newest
    NodeId newer{-1}, older{-1};  // siblings
    int32_t n_children = 0;
    int32_t n_pins = 0;
    int32_t n_held_children = 0;
    uint64_t used = 0;  // when; counts uses
    bool exists = false;

    bool is_root() const { return block.value < 0; }
    bool is_partial() const { return n_tokens < kBlockTokens; }
    bool is_held() const { return n_pins > 0 || n_held_children > 0; }
  };
  struct KeyHash {
    size_t operator()(const BlockKey& key) const;
  };

  Node& At(NodeId id) { return nodes_[static_cast<size_t>(id.value)]; }
  const Node& At(NodeId id) const { return nodes_[static_cast<size_t>(id.value)]; }
  // The node whose children follow `parent`; kNone: nothing does.
  NodeId ParentNode(const BlockKey& root, NodeId parent) const;
  NodeId NewNode();
  BlockId Remove(NodeId id);
  void Link(NodeId id, NodeId parent);
  void Unlink(NodeId id);
  void Touch(NodeId id);
  void Queue(NodeId id);
  void Unqueue(NodeId id);
  void DropSuperseded(NodeId parent, std::span<const TokenId> tokens);
  int32_t SharedTokens(NodeId id, std::span<const TokenId> tokens) const;

  std::vector<Node> nodes_;
  std::vector<NodeId> unused_;                            // ids of nodes that went
  std::unordered_map<BlockKey, NodeId, KeyHash> by_key_;  // full nodes and roots
  std::set<std::pair<uint64_t, NodeId>> evictable_;       // leaves that nobody holds, by last use
  std::vector<BlockId> dropped_;
  int32_t n_blocks_ = 0;  // dropped ones included
  int32_t n_held_ = 0;    // nodes with a pin on themselves or behind them
  uint64_t n_uses_ = 0;
};

}  // namespace sluice::kv
