#!/usr/bin/env bash
# Copies what our Debian packages provide to the build into a folder that CMake takes as a prefix:
#   export LD_LIBRARY_PATH=$PWD/bundle/lib:$PWD/bundle/lib/x86_64-linux-gnu
#   cmake -S . -B build -DCMAKE_PREFIX_PATH=$PWD/bundle
# for machines that have a compiler and CMake, and no way to install anything. Libraries are static
# where Debian has them (the path is for Gloo, of which there is only a shared one, and for the Python package, whose
# native part links Boost's shared ones); of Boost only the headers that our sources reach are taken.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=${1:-bundle}
readonly PACKAGES=(libeigen3-dev libfmt-dev libfmt9 nlohmann-json3-dev libtomlplusplus-dev
  libtomlplusplus3 libcli11-dev libgtest-dev googletest libgmock-dev librapidcheck-dev
  libboost-fiber1.74-dev libboost-context1.74-dev libboost-filesystem1.74-dev
  libboost-fiber1.74.0 libboost-context1.74.0 libboost-filesystem1.74.0
  libgloo-dev libgloo0 libhiredis0.14 libibverbs1 libnl-3-200 libnl-route-3-200)

# Prints the files of the packages that a build can use.
package_files() {
  local package
  for package in "${PACKAGES[@]}"; do
    dpkg-query --listfiles "$package" 2>/dev/null || true
  done | sed 's#^/lib/#/usr/lib/#' | grep -E '^/usr/(include|lib|share/cmake|share/eigen3)/' |
    grep -vE '/pkgconfig/|libboost_filesystem\.so$' | sort -u
}

# Boost's CMake files for the libraries we link and those they name.
boost_cmake_files() {
  local cmake_folder
  cmake_folder=$(dirname "$(dpkg-query --listfiles libboost1.74-dev |
    grep '/BoostConfig.cmake$')")/..
  find "$(realpath "$cmake_folder")" -regextype egrep -type f \
    -regex '.*/(Boost[^/]*|boost_(headers|fiber|context|filesystem)-)[0-9.]*(/.*|\.cmake)'
}

# The headers our sources reach: asked of the compiler, for every <boost/...> they include.
boost_headers() {
  local probe
  probe=$(mktemp --suffix=.cc)
  {
    echo '#include <boost/version.hpp>'
    git grep --untracked -hoE '#include <boost/[^>]+>' -- '*.h' '*.cc' || true
  } | sort -u >"$probe"
  g++ -std=c++20 -M "$probe" | grep -oE '/usr/include/boost/[^ ]+' | sort -u
  rm -f "$probe"
}

rm -rf "$TARGET"
mkdir -p "$TARGET"
{ package_files; boost_cmake_files; boost_headers; } |
  while read -r file; do
    if [[ ! -d "$file" ]]; then echo "${file#/usr/}"; fi
  done | tar --create --dereference --directory=/usr --files-from=- |
  tar --extract --directory="$TARGET"
# Debian's Gloo names its library by its whole path.
sed -i 's#"/usr/lib/libgloo#"${_IMPORT_PREFIX}/lib/libgloo#' \
  "$TARGET"/share/cmake/Gloo/GlooTargets-*.cmake
du -sh "$TARGET" | awk '{ print "bundle: " $1 " in " $2 }'
