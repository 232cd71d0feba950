// The two containers taken from Boost, under our names.

#pragma once

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>

namespace sluice {

template <typename Key, typename Value, typename Hash = boost::hash<Key>>
using FlatMap = boost::unordered_flat_map<Key, Value, Hash>;

template <typename T, size_t kInline>
using SmallVec = boost::container::small_vector<T, kInline>;

}  // namespace sluice
