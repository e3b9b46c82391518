// Headers that most tests include and that take long to parse; see tests/CMakeLists.txt.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/recorder.h"
