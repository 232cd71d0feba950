// The container taken from Boost, under our name.

#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>

namespace sluice {

template <typename T, size_t kInline>
using SmallVec = boost::container::small_vector<T, kInline>;

}  // namespace sluice
