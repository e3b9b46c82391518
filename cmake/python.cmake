# The native part of the Python package: built where Python's headers are, which Debian has as
# python3-dev. It needs neither PyTorch nor a binding library.
set(LOCKSTEP_PYTHON AUTO CACHE STRING "Build the native part of the Python package: AUTO, ON or OFF")
set_property(CACHE LOCKSTEP_PYTHON PROPERTY STRINGS AUTO ON OFF)
# The system's interpreter, unless another one is named: it is the one whose packages are installed.
if(NOT DEFINED Python_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python_EXECUTABLE /usr/bin/python3)
endif()
if(NOT LOCKSTEP_PYTHON STREQUAL OFF)
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
endif()
if(NOT Python_Development.Module_FOUND)
  if(LOCKSTEP_PYTHON STREQUAL ON)
    message(FATAL_ERROR "lockstep: LOCKSTEP_PYTHON=ON, but Python's headers were not found")
  endif()
  message(STATUS "lockstep: left out python/native: no headers of Python 3.10 or later")
  list(APPEND LOCKSTEP_LEFT_OUT python/native)
endif()
