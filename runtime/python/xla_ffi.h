/// The part of XLA's foreign function interface that jax_calls.cpp takes, for a library that is compiled
/// where no JAX is: the C interface of version 0.1, which JAX 0.5 has and later ones accept. Names, numbers
/// and layouts are XLA's (a test compares them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

extern "C" {

// NOLINTBEGIN(*): XLA's names

struct XLA_FFI_Error;
struct XLA_FFI_ExecutionContext;

struct XLA_FFI_Extension_Base {
  std::size_t struct_size;
  std::int32_t type;  // XLA_FFI_Extension_Metadata is 1
  XLA_FFI_Extension_Base* next;
};

struct XLA_FFI_Api_Version {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  int major_version, minor_version;
};

struct XLA_FFI_Metadata {
  std::size_t struct_size;
  XLA_FFI_Api_Version api_version;
  std::uint32_t traits;
};

struct XLA_FFI_Metadata_Extension {
  XLA_FFI_Extension_Base extension_base;
  XLA_FFI_Metadata* metadata;
};

struct XLA_FFI_Error_Create_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  const char* message;
  std::int32_t errc;  // XLA_FFI_Error_Code_INVALID_ARGUMENT is 3, _INTERNAL 13
};

struct XLA_FFI_Stream_Get_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  void* stream;
};

struct XLA_FFI_Api {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Api_Version api_version;
  const void* internal_api;
  XLA_FFI_Error* (*XLA_FFI_Error_Create)(XLA_FFI_Error_Create_Args*);
  void* others[3];
  XLA_FFI_Error* (*XLA_FFI_Stream_Get)(XLA_FFI_Stream_Get_Args*);
};

struct XLA_FFI_Buffer {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  std::int32_t dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

struct XLA_FFI_ByteSpan {
  const char* ptr;
  std::size_t len;
};

struct XLA_FFI_Scalar {
  std::int32_t dtype;
  void* value;
};

struct XLA_FFI_Array {
  std::int32_t dtype;
  std::size_t size;
  void* data;
};

// Of operands and of results; XLA has a type for each.
struct XLA_FFI_Args {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  std::int64_t size;
  std::int32_t* types;
  void** args;
};

struct XLA_FFI_Attrs {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  std::int64_t size;
  std::int32_t* types;
  XLA_FFI_ByteSpan** names;
  void** attrs;
};

struct XLA_FFI_CallFrame {
  std::size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  const XLA_FFI_Api* api;
  XLA_FFI_ExecutionContext* ctx;
  std::int32_t stage;  // XLA_FFI_ExecutionStage_EXECUTE is 3
  XLA_FFI_Args args;
  XLA_FFI_Args rets;
  XLA_FFI_Attrs attrs;
};

// NOLINTEND(*)

}  // extern "C"

namespace ffi {

/// Why a call failed; without words it did not.
class Error {
 public:
  static Error Success() { return {}; }
  static Error InvalidArgument(std::string words) { return {invalid_argument, std::move(words)}; }
  static Error Internal(std::string words) { return {internal, std::move(words)}; }

  [[nodiscard]] bool failure() const { return code_ != 0; }

  /// As XLA takes it: null where nothing failed.
  [[nodiscard]] XLA_FFI_Error* for_xla(const XLA_FFI_Api& api) const {
    if (!failure()) return nullptr;
    XLA_FFI_Error_Create_Args arguments{sizeof arguments, nullptr, words_.c_str(), code_};
    return api.XLA_FFI_Error_Create(&arguments);
  }

 private:
  static constexpr std::int32_t invalid_argument = 3;
  static constexpr std::int32_t internal = 13;

  Error() = default;
  Error(std::int32_t code, std::string words) : code_(code), words_(std::move(words)) {}

  std::int32_t code_ = 0;
  std::string words_;
};

template <class T>
struct Span {
  const T* first = nullptr;
  std::size_t count = 0;

  [[nodiscard]] const T* begin() const { return first; }
  [[nodiscard]] const T* end() const { return first + count; }
  [[nodiscard]] std::size_t size() const { return count; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return first[i]; }
};

/// The bytes of an element, by XLA_FFI_DataType: of the types that fields and scalars have.
inline std::size_t bytes_of_type(std::int32_t type) {
  switch (type) {
    case 6:  // U8
      return 1;
    case 3:   // S16
    case 7:   // U16
    case 10:  // F16
    case 16:  // BF16
      return 2;
    case 11:  // F32
      return 4;
    default:  // F64 is 12
      return 8;
  }
}

class AnyBuffer {
 public:
  explicit AnyBuffer(const XLA_FFI_Buffer* buffer) : buffer_(buffer) {}

  [[nodiscard]] Span<std::int64_t> dimensions() const {
    return {buffer_->dims, static_cast<std::size_t>(buffer_->rank)};
  }
  [[nodiscard]] void* untyped_data() const { return buffer_->data; }
  [[nodiscard]] std::size_t size_bytes() const {
    std::size_t bytes = bytes_of_type(buffer_->dtype);
    for (const std::int64_t extent : dimensions()) bytes *= static_cast<std::size_t>(extent);
    return bytes;
  }

 private:
  const XLA_FFI_Buffer* buffer_;
};

/// Operands, or results.
class Buffers {
 public:
  explicit Buffers(const XLA_FFI_Args& all) : all_(&all) {}

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(all_->size); }
  [[nodiscard]] AnyBuffer operator[](std::size_t i) const {
    return AnyBuffer(static_cast<const XLA_FFI_Buffer*>(all_->args[i]));
  }

 private:
  const XLA_FFI_Args* all_;
};

/// The attribute of this name; null where there is none.
inline const void* attribute(const XLA_FFI_CallFrame& frame, std::string_view name) {
  for (std::int64_t i = 0; i < frame.attrs.size; ++i) {
    const XLA_FFI_ByteSpan& own = *frame.attrs.names[i];
    if (std::string_view(own.ptr, own.len) == name) return frame.attrs.attrs[i];
  }
  return nullptr;
}

inline std::string text(const void* attribute) {
  const auto& bytes = *static_cast<const XLA_FFI_ByteSpan*>(attribute);
  return {bytes.ptr, bytes.len};
}

inline std::int64_t number(const void* attribute) {
  return *static_cast<const std::int64_t*>(static_cast<const XLA_FFI_Scalar*>(attribute)->value);
}

template <class T>
Span<T> numbers(const void* attribute) {
  const auto& array = *static_cast<const XLA_FFI_Array*>(attribute);
  return {static_cast<const T*>(array.data), array.size};
}

/// Where XLA asks what a handler was compiled for, the answer; then the call has no more to do.
inline bool tells_version(const XLA_FFI_CallFrame& frame) {
  constexpr std::int32_t metadata = 1;
  if (frame.extension_start == nullptr || frame.extension_start->type != metadata) return false;
  auto& told = *reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame.extension_start)->metadata;
  told.api_version = {sizeof told.api_version, nullptr, 0, 1};
  told.traits = 0;
  return true;
}

/// The stream that XLA works on, a pointer, so that CUDA's headers are not needed.
inline XLA_FFI_Error* find_stream(const XLA_FFI_CallFrame& frame, void*& stream) {
  XLA_FFI_Stream_Get_Args asked{sizeof asked, nullptr, frame.ctx, nullptr};
  XLA_FFI_Error* const error = frame.api->XLA_FFI_Stream_Get(&asked);
  stream = asked.stream;
  return error;
}

}  // namespace ffi
