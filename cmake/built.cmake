# A wheel of what another build folder holds: nothing is compiled, and no compiler is looked for. The test
# of the wheel (python/tests/wheel) names that folder as LOCKSTEP_BUILT.
include(cmake/wheel.cmake)
set(core "${LOCKSTEP_BUILT}/python/lockstep/_core.abi3.so")
set(command "${LOCKSTEP_BUILT}/python/of_wheel/lockstep")
foreach(file IN ITEMS "${core}" "${command}")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "lockstep: LOCKSTEP_BUILT: ${file} is missing: build `lockstep_of_wheel` and `lockstep_core`")
  endif()
endforeach()
# What pyproject.toml has built.
add_custom_target(lockstep_core)
add_custom_target(lockstep)
lockstep_wheel("${core}" "${command}")
