# Puts intermediate code into a C++ file: cmake -DTEXT=FILE -DOUT=FILE -P embed.cmake. Without TEXT it is empty.
# OUT.ptx has what was put there.
set(text "")
if(TEXT)
  file(READ "${TEXT}" text)
  # nvcc names the language of its own version, which only as new a driver takes. Nothing of it is used that
  # drivers of CUDA 11 did not know; ptxas checks that (tests/gpu/fingerprint).
  string(REGEX REPLACE "\\.version [0-9.]+" ".version 6.4" text "${text}")
endif()
file(WRITE "${OUT}.ptx" "${text}")
# As numbers: compilers need not take a text of more than 65,536 characters.
string(HEX "${text}" digits)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${digits}")
file(WRITE "${OUT}" "#include \"lockstep/gpu/fingerprint/code.h\"

namespace lockstep::fingerprint {

std::string_view kernel_code() {
  static constexpr char kCode[] = {${bytes}0};
  return {kCode, sizeof(kCode) - 1};
}

}  // namespace lockstep::fingerprint
")
