# A room is one folder, one library and one include prefix: lockstep_room(sim/fiber ...) builds the
# target lockstep::sim_fiber, whose headers are "lockstep/sim/fiber/<file>.h". Rooms under src/ drop
# that prefix: src/tensor is the room `tensor`.
#
# Each room has an include root of its own, so a header can be reached only by rooms that list this one
# in DEPS. An #include that points up the building is therefore "No such file or directory", not a
# review comment. LINKS are libraries its headers may use, PRIVATE_LINKS those only its .cc files use.
function(lockstep_room path)
  cmake_parse_arguments(PARSE_ARGV 1 ROOM "" "" "SOURCES;DEPS;LINKS;PRIVATE_LINKS")
  string(REPLACE "/" "_" name "${path}")
  set(include_root "${PROJECT_BINARY_DIR}/rooms/${name}")
  cmake_path(GET path PARENT_PATH parent)
  file(MAKE_DIRECTORY "${include_root}/lockstep/${parent}")
  file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${include_root}/lockstep/${path}" SYMBOLIC)
  list(TRANSFORM ROOM_DEPS REPLACE "/" "_")
  list(TRANSFORM ROOM_DEPS PREPEND "lockstep::")

  lockstep_build_only(private_links ${ROOM_PRIVATE_LINKS})
  if(ROOM_SOURCES)
    add_library(lockstep_${name} STATIC ${ROOM_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(lockstep_${name} PRIVATE "$<BUILD_INTERFACE:lockstep_warnings>"
                                                   ${private_links})
  else()
    add_library(lockstep_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(lockstep::${name} ALIAS lockstep_${name})
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(lockstep_${name} ${scope} "$<BUILD_INTERFACE:${include_root}>")
  target_link_libraries(lockstep_${name} ${scope} lockstep_options ${ROOM_DEPS} ${ROOM_LINKS})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOMS ${path})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOM_FOLDERS "${CMAKE_CURRENT_SOURCE_DIR}")
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LINKS ${ROOM_LINKS} ${private_links})
endfunction()

# Of the libraries only .cc files use, the header-only ones are of no concern to a program that links
# an installed Lockstep; the others it still has to find.
function(lockstep_build_only result)
  set(links)
  foreach(link IN LISTS ARGN)
    if(TARGET ${link})
      get_target_property(type ${link} TYPE)
      if(type STREQUAL INTERFACE_LIBRARY)
        set(link "$<BUILD_INTERFACE:${link}>")
      endif()
    endif()
    list(APPEND links "${link}")
  endforeach()
  set(${result} "${links}" PARENT_SCOPE)
endfunction()

# One test program a room: every *_test.cc and *_property.cc of tests/<room>/ belongs to it because it
# exists. Tests carry the label of their kind, or LABEL.
function(lockstep_room_tests path)
  cmake_parse_arguments(PARSE_ARGV 1 TESTS "" "LABEL" "DEPS")
  string(REPLACE "/" "_" name "${path}")
  list(TRANSFORM TESTS_DEPS REPLACE "/" "_")
  list(TRANSFORM TESTS_DEPS PREPEND "lockstep::")
  foreach(kind test property)
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${path}/*_${kind}.cc")
    if(NOT sources)
      continue()
    endif()
    add_executable(${name}_${kind} ${sources})
    target_include_directories(${name}_${kind} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name}_${kind} PRIVATE lockstep::${name} ${TESTS_DEPS}
                                                  lockstep_test_options GTest::gtest_main)
    target_precompile_headers(${name}_${kind} REUSE_FROM lockstep_test_headers)
    target_compile_definitions(${name}_${kind} PRIVATE
      LOCKSTEP_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LOCKSTEP_BINARY_DIR="${PROJECT_BINARY_DIR}")
    if(kind STREQUAL property)
      target_link_libraries(${name}_${kind} PRIVATE rapidcheck rapidcheck_gtest)
    endif()
    set(label ${kind})
    if(TESTS_LABEL)
      set(label ${TESTS_LABEL})
    elseif(kind STREQUAL test)
      set(label unit)
    endif()
    gtest_discover_tests(${name}_${kind} PROPERTIES LABELS ${label} TIMEOUT 300 DISCOVERY_TIMEOUT 60)
  endforeach()
endfunction()
