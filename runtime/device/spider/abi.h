/// The version of the device headers; it changes with anything that generated files use of them. They live in
/// the inline namespace of that number, so that kernels of two versions can be in one program.
#pragma once

namespace spider {
inline namespace device_4 {

constexpr int device_abi = 4;

}  // namespace device_4
}  // namespace spider
