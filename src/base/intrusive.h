// A non-atomic intrusive pointer: a world never crosses threads, so counts need no locks, and
// atomic counts alone would cost more than a whole tiny training step.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace lockstep {

/// Base of counted objects. The last release calls `destroy()`, which returns the object to its
/// pool; the default deletes it.
class Counted {  // NOLINT(cppcoreguidelines-virtual-class-destructor): only destroy() ends it.
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Counted(Counted&&) = delete;
  Counted& operator=(Counted&&) = delete;

  void retain() const { ++count_; }

  void release() const {
    if (--count_ == 0)
      const_cast<Counted*>(this)->destroy();  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }

  std::int32_t use_count() const { return count_; }

 protected:
  virtual ~Counted() = default;

  virtual void destroy() { delete this; }

 private:
  mutable std::int32_t count_ = 0;
};

/// A handle that keeps a Counted object alive. Copies are one increment.
template <typename T>
class Ref {
 public:
  Ref() = default;

  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }

  Ref(const Ref& other) : Ref(other.object_) {}

  /// A handle to a base of what `other` holds. Implicit, as for pointers.
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  Ref(const Ref<U>& other) : Ref(other.get()) {}  // NOLINT(google-explicit-constructor)

  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}

  // The copy holds the object before the old one is let go: self-assignment is safe.
  Ref& operator=(const Ref& other) {  // NOLINT(bugprone-unhandled-self-assignment)
    Ref copy(other);
    std::swap(object_, copy.object_);
    return *this;
  }

  Ref& operator=(Ref&& other) noexcept {
    Ref moved(std::move(other));
    std::swap(object_, moved.object_);
    return *this;
  }

  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  T* get() const { return object_; }

  T* operator->() const { return object_; }

  T& operator*() const { return *object_; }

  explicit operator bool() const { return object_ != nullptr; }

  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace lockstep
