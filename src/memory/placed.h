// Objects that live in memory of a resource.
#pragma once

#include <memory>
#include <memory_resource>
#include <utility>

namespace lockstep {

/// Ends an object and gives its memory back. Requires: the resource outlives the object.
struct PlacedRelease {
  std::pmr::memory_resource* memory = nullptr;

  template <typename T>
  void operator()(T* object) const {
    std::pmr::polymorphic_allocator<>(memory).delete_object(object);
  }
};

/// The owner of such an object.
template <typename T>
using Placed = std::unique_ptr<T, PlacedRelease>;

/// Makes T(args...) in `memory`. What a world makes again in each run is warm from the second on.
template <typename T, typename... Args>
Placed<T> make_placed(std::pmr::memory_resource& memory, Args&&... args) {
  T* const object =
      std::pmr::polymorphic_allocator<>(&memory).new_object<T>(std::forward<Args>(args)...);
  return {object, PlacedRelease{&memory}};
}

}  // namespace lockstep
