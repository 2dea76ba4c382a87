// NVRTC knows these functions without a header.
