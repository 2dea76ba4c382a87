/// The floating-point mode of kernels on the host.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace spider {

/// Makes the calling thread compute with subnormal numbers until the end of the scope. A program that is
/// linked with -ffast-math or -Ofast starts in a mode that replaces them by 0, and threads inherit it.
class WithSubnormals {
#if defined(__SSE__)
  using Mode = unsigned;
  static constexpr Mode flushing = 0x8040;  // results (FTZ) and operands (DAZ)
  static Mode get() {
    return _mm_getcsr();
  }
  static void set(Mode mode) {
    _mm_setcsr(mode);
  }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static constexpr Mode flushing = Mode{1} << 24 | Mode{1} << 19;  // FZ, FZ16
  static Mode get() {
    Mode mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set(Mode mode) {
    asm volatile("msr fpcr, %0" : : "r"(mode));
  }
#else
  using Mode = unsigned;
  static constexpr Mode flushing = 0;
  static Mode get() {
    return 0;
  }
  static void set(Mode /*mode*/) {}
#endif

 public:
  WithSubnormals() : before_(get()) {
    if ((before_ & flushing) != 0) set(before_ & ~flushing);
  }
  ~WithSubnormals() {
    if ((before_ & flushing) != 0) set(before_);
  }
  WithSubnormals(const WithSubnormals&) = delete;
  WithSubnormals& operator=(const WithSubnormals&) = delete;

 private:
  Mode before_;
};

}  // namespace spider
