#include "kv/prefix_index.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace sluice::kv {

size_t PrefixIndex::KeyHash::operator()(const BlockKey& key) const {
  size_t hash = 0;  // the key is a hash already, and a keyed one
  std::memcpy(&hash, key.bytes.data(), sizeof hash);
  return hash;
}

PrefixIndex::Match PrefixIndex::Find(const BlockKey& root,
                                     std::span<const TokenId> tokens,
                                     int32_t n_max) {
  Match match;
  tokens = tokens.first(std::min(tokens.size(), static_cast<size_t>(n_max)));
  BlockKey key = root;
  while (std::ssize(tokens) >= match.n_full + kBlockTokens) {
    const auto next = tokens.subspan(static_cast<size_t>(match.n_full), kBlockTokens);
    key = ChildKey(key, next);
    const NodeId node = Lookup(key);
    if (node == kNone) break;
    match.node = node;
    match.n_full += kBlockTokens;
  }
  const NodeId parent = ParentNode(root, match.node);
  if (parent == kNone) return match;
  const auto rest = tokens.subspan(static_cast<size_t>(match.n_full));
  NodeId child = At(parent).first_child;
  match.parts = match.node != kNone && child != kNone && !rest.empty();
  for (int32_t i = 0; child != kNone && i < kMaxPartialLooks; ++i, child = At(child).older) {
    const int32_t n_same = SharedTokens(child, rest);
    // It goes on where the child ends, or ends itself within it.
    if (n_same == At(child).n_tokens || n_same == std::ssize(rest)) match.parts = false;
    const int32_t n_shared = n_same & ~1;
    if (n_shared <= match.n_partial || n_shared == kBlockTokens) continue;
    match.n_partial = n_shared;
    match.partial = child;
  }
  if (match.node != kNone) Touch(match.node);
  if (match.partial != kNone) Touch(match.partial);
  return match;
}

std::vector<BlockId> PrefixIndex::BlocksOf(NodeId node) const {
  std::vector<BlockId> blocks;
  for (NodeId at = node; at != kNone && !At(at).is_root(); at = At(at).parent) {
    blocks.push_back(At(at).block);
  }
  std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

NodeId PrefixIndex::Lookup(const BlockKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() || At(found->second).is_root() ? kNone : found->second;
}

NodeId PrefixIndex::ParentNode(const BlockKey& root, NodeId parent) const {
  if (parent != kNone) return parent;
  const auto found = by_key_.find(root);
  return found == by_key_.end() ? kNone : found->second;
}

NodeId PrefixIndex::Insert(const BlockKey& root,
                           NodeId parent,
                           std::span<const TokenId> tokens,
                           BlockId block) {
  SLUICE_CHECK(!tokens.empty() && std::ssize(tokens) <= kBlockTokens && block.value >= 0);
  NodeId above = ParentNode(root, parent);
  if (above == kNone) {
    above = NewNode();
    At(above).key = root;
    by_key_.emplace(root, above);
  }
  SLUICE_CHECK(At(above).is_root() || !At(above).is_partial());
  DropSuperseded(above, tokens);
  const NodeId id = NewNode();
  Node& node = At(id);
  node.block = block;
  node.n_tokens = static_cast<int32_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), node.tokens.begin());
  if (!node.is_partial()) {
    node.key = ChildKey(At(above).key, tokens);
    const bool is_new = by_key_.emplace(node.key, id).second;
    SLUICE_CHECK(is_new);
  }
  Link(id, above);
  ++n_blocks_;
  node.used = ++n_uses_;
  Queue(id);
  return id;
}

NodeId PrefixIndex::FindChild(const BlockKey& root,
                              NodeId parent,
                              std::span<const TokenId> tokens) const {
  const NodeId above = ParentNode(root, parent);
  return above == kNone ? kNone : Lookup(ChildKey(At(above).key, tokens));
}

bool PrefixIndex::HasChild(const BlockKey& root,
                           NodeId parent,
                           std::span<const TokenId> tokens) const {
  const NodeId above = ParentNode(root, parent);
  if (above == kNone) return false;
  if (std::ssize(tokens) == kBlockTokens) return FindChild(root, parent, tokens) != kNone;
  NodeId child = At(above).first_child;
  for (int32_t i = 0; child != kNone && i < kMaxPartialLooks; ++i, child = At(child).older) {
    if (SharedTokens(child, tokens) == std::ssize(tokens)) return true;
  }
  return false;
}

// A partial block that these tokens go on from: whoever fills it has a copy of its rows.
void PrefixIndex::DropSuperseded(NodeId parent, std::span<const TokenId> tokens) {
  NodeId child = At(parent).first_child;
  for (int32_t i = 0; child != kNone && i < kMaxPartialLooks; ++i) {
    const NodeId older = At(child).older;
    const Node& node = At(child);
    const bool goes_on = node.is_partial() && node.n_tokens <= std::ssize(tokens) &&
                         SharedTokens(child, tokens) == node.n_tokens;
    if (goes_on && !node.is_held()) {
      Unlink(child);
      dropped_.push_back(Remove(child));
    }
    child = older;
  }
}

int32_t PrefixIndex::SharedTokens(NodeId id, std::span<const TokenId> tokens) const {
  const Node& node = At(id);
  const auto mine = std::span(node.tokens).first(static_cast<size_t>(node.n_tokens));
  const auto end = std::mismatch(mine.begin(), mine.end(), tokens.begin(), tokens.end()).first;
  return static_cast<int32_t>(end - mine.begin());
}

void PrefixIndex::Pin(NodeId id) {
  bool was_held = At(id).is_held();
  ++At(id).n_pins;
  while (!was_held) {
    Unqueue(id);
    Node& node = At(id);
    if (node.is_root()) return;
    ++n_held_;
    id = node.parent;
    was_held = At(id).is_held();
    ++At(id).n_held_children;
  }
}

void PrefixIndex::Unpin(NodeId id) {
  SLUICE_CHECK(At(id).n_pins > 0);
  --At(id).n_pins;
  Touch(id);
  while (!At(id).is_held()) {
    Queue(id);
    const Node& node = At(id);
    if (node.is_root()) return;
    --n_held_;
    id = node.parent;
    --At(id).n_held_children;
  }
}

PrefixIndex::Evicted PrefixIndex::Evict() {
  if (!dropped_.empty()) {
    const Evicted evicted{.block = dropped_.back(), .key = {}};
    dropped_.pop_back();
    --n_blocks_;
    return evicted;
  }
  SLUICE_CHECK(!evictable_.empty());
  const NodeId id = evictable_.begin()->second;
  const NodeId parent = At(id).parent;
  const uint64_t used = At(id).used;
  Unqueue(id);
  Unlink(id);
  Evicted evicted{.block = {}, .key = {}};
  if (!At(id).is_partial()) evicted.key = At(id).key;
  evicted.block = Remove(id);
  --n_blocks_;
  Node& above = At(parent);
  // Whoever used the child came through here.
  above.used = std::max(above.used, used);
  if (above.is_root() && above.n_children == 0) {
    by_key_.erase(above.key);
    above.exists = false;
    unused_.push_back(parent);
  } else {
    Queue(parent);
  }
  return evicted;
}

NodeId PrefixIndex::NewNode() {
  if (unused_.empty()) {
    unused_.emplace_back(static_cast<int32_t>(nodes_.size()));
    nodes_.emplace_back();
  }
  const NodeId id = unused_.back();
  unused_.pop_back();
  At(id) = Node();
  At(id).exists = true;
  return id;
}

BlockId PrefixIndex::Remove(NodeId id) {
  Node& node = At(id);
  SLUICE_CHECK(node.exists && node.n_children == 0 && !node.is_held());
  Unqueue(id);
  if (!node.is_partial()) by_key_.erase(node.key);
  node.exists = false;
  unused_.push_back(id);
  return node.block;
}

void PrefixIndex::Link(NodeId id, NodeId parent) {
  Unqueue(parent);
  Node& above = At(parent);
  At(id).parent = parent;
  At(id).older = above.first_child;
  if (above.first_child != kNone) At(above.first_child).newer = id;
  above.first_child = id;
  ++above.n_children;
}

void PrefixIndex::Unlink(NodeId id) {
  const Node& node = At(id);
  Node& above = At(node.parent);
  (node.newer != kNone ? At(node.newer).older : above.first_child) = node.older;
  if (node.older != kNone) At(node.older).newer = node.newer;
  --above.n_children;
}

void PrefixIndex::Touch(NodeId id) {
  Unqueue(id);
  At(id).used = ++n_uses_;
  Queue(id);
}

void PrefixIndex::Queue(NodeId id) {
  const Node& node = At(id);
  if (!node.is_root() && node.n_children == 0 && !node.is_held()) evictable_.emplace(node.used, id);
}

void PrefixIndex::Unqueue(NodeId id) { evictable_.erase({At(id).used, id}); }

std::vector<PrefixIndex::View> PrefixIndex::nodes() const {
  std::vector<View> views;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.exists || node.is_root()) continue;
    const NodeId parent = At(node.parent).is_root() ? kNone : node.parent;
    views.push_back({.node = NodeId(static_cast<int32_t>(i)),
                     .parent = parent,
                     .block = node.block,
                     .n_pins = node.n_pins,
                     .n_children = node.n_children});
  }
  return views;
}

}  // namespace sluice::kv
