# A room is one folder, one library and one include prefix: lockstep_room(sim/fiber ...) builds the
# target lockstep::sim_fiber, whose headers are "lockstep/sim/fiber/<file>.h". Rooms under src/ drop
# that prefix: src/tensor is the room `tensor`. A room is declared here and nowhere else: the tests, the
# table and the picture in docs/architecture.md and the rules of tests/rooms are made from this
# declaration or compared with it (rooms.json in the build folder).
#
# Each room has its own include root, so a header can be reached only by rooms that name this one:
# in DEPS where their headers include it, in PRIVATE_DEPS where only their .cc files do. An #include
# that points up the building is therefore "No such file or directory", not a review comment. LINKS are
# libraries its headers may use, PRIVATE_LINKS those only its .cc files use.
#
#   ABOUT       what it holds, in one line
#   EXECUTABLE  its sources are a program of this name, not a library
#   MODULE      its sources are a library of this name that a program loads while it runs
#   FRONT_DOOR  headers of include/lockstep that this room implements
#   NESTED      folders in it that are rooms themselves
#   COLD        it reads what a run is made of and shows what came of it, and does nothing per rank
#               or step: built fast, with fewer optimisations
#
# A room in LOCKSTEP_LEFT_OUT is declared and not built.
function(lockstep_room path)
  cmake_parse_arguments(PARSE_ARGV 1 ROOM "COLD" "ABOUT;EXECUTABLE;MODULE"
                        "SOURCES;DEPS;PRIVATE_DEPS;LINKS;PRIVATE_LINKS;FRONT_DOOR;NESTED")
  if(ROOM_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lockstep_room(${path}): what is ${ROOM_UNPARSED_ARGUMENTS}?")
  endif()
  if("${ROOM_ABOUT}" STREQUAL "" OR "${ROOM_ABOUT}" MATCHES ";")
    message(FATAL_ERROR "lockstep_room(${path}): ABOUT is one line without semicolons")
  endif()
  string(REPLACE "/" "_" name "${path}")
  set(built true)
  if(path IN_LIST LOCKSTEP_LEFT_OUT)
    set(built false)
  endif()
  lockstep_declare("${path}" ${built})
  if(NOT built)
    return()
  endif()

  set(target lockstep_${name})
  set(fast "")
  if(ROOM_COLD)
    set(fast ${LOCKSTEP_FAST_TO_BUILD})
  endif()
  lockstep_room_names(deps ${ROOM_DEPS})
  lockstep_room_names(private_deps ${ROOM_PRIVATE_DEPS})
  lockstep_build_only(private_links ${ROOM_PRIVATE_LINKS})
  lockstep_include_root(include_root "${path}")
  if(ROOM_EXECUTABLE OR ROOM_MODULE)
    set(target ${ROOM_EXECUTABLE}${ROOM_MODULE})
    if(ROOM_EXECUTABLE)
      add_executable(${target} ${ROOM_SOURCES})
    else()
      add_library(${target} MODULE ${ROOM_SOURCES})
    endif()
    target_include_directories(${target} PRIVATE "${include_root}")
    target_link_libraries(${target} PRIVATE lockstep_options lockstep_warnings ${deps}
                                            ${private_deps} ${ROOM_LINKS} ${private_links})
    target_compile_options(${target} PRIVATE ${fast})
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_PRODUCT ${target})
    return()
  endif()
  if(ROOM_SOURCES)
    add_library(${target} STATIC ${ROOM_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE "$<BUILD_INTERFACE:lockstep_warnings>"
                                            ${private_deps} ${private_links})
    target_compile_options(${target} PRIVATE ${fast})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(lockstep::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${include_root}>")
  target_link_libraries(${target} ${scope} lockstep_options ${deps} ${ROOM_LINKS})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_PRODUCT ${target})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOMS ${path})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOM_FOLDERS "${CMAKE_CURRENT_SOURCE_DIR}")
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LINKS ${ROOM_LINKS} ${private_links})
endfunction()

# Appends the room's declaration to what becomes rooms.json. Uses the arguments of lockstep_room.
function(lockstep_declare path built)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
             OUTPUT_VARIABLE folder)
  set(row "{\"name\": \"${path}\", \"folder\": \"${folder}\", \"built\": ${built}")
  string(APPEND row ", \"about\": \"${ROOM_ABOUT}\"")
  foreach(key DEPS PRIVATE_DEPS LINKS PRIVATE_LINKS FRONT_DOOR)
    list(JOIN ROOM_${key} "\", \"" values)
    if(values)
      set(values "\"${values}\"")
    endif()
    string(TOLOWER ${key} word)
    string(APPEND row ", \"${word}\": [${values}]")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_DECLARED "${row}}")
endfunction()

# Writes rooms.json: every declared room, in the order of declaration.
function(lockstep_write_rooms)
  get_property(rows GLOBAL PROPERTY LOCKSTEP_DECLARED)
  list(JOIN rows ",\n" text)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/rooms.json" CONTENT "[\n${text}\n]\n" @ONLY)
endfunction()

# sim/fiber -> lockstep::sim_fiber
function(lockstep_room_names result)
  set(names ${ARGN})
  list(TRANSFORM names REPLACE "/" "_")
  list(TRANSFORM names PREPEND "lockstep::")
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

# The folder in which "lockstep/<path>/..." is this room and nothing else: a link to the room, or,
# where rooms lie in it, a folder of links to what is its own.
function(lockstep_include_root result path)
  string(REPLACE "/" "_" name "${path}")
  set(root "${PROJECT_BINARY_DIR}/rooms/${name}")
  cmake_path(GET path PARENT_PATH parent)
  set(here "${root}/lockstep/${path}")
  if(ROOM_NESTED)
    file(MAKE_DIRECTORY "${here}")
    file(GLOB entries CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}"
         "${CMAKE_CURRENT_SOURCE_DIR}/*")
    list(REMOVE_ITEM entries ${ROOM_NESTED})
    foreach(entry IN LISTS entries)
      file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/${entry}" "${here}/${entry}" SYMBOLIC)
    endforeach()
  else()
    file(MAKE_DIRECTORY "${root}/lockstep/${parent}")
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${here}" SYMBOLIC)
  endif()
  foreach(header IN LISTS ROOM_FRONT_DOOR)
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/include/lockstep/${header}"
                     "${root}/lockstep/${header}" SYMBOLIC)
  endforeach()
  set(${result} "${root}" PARENT_SCOPE)
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

# One test program per room: every *_test.cc and *_property.cc of tests/<room>/ belongs to it because it
# exists. Tests carry the label of their kind, or LABEL. MEASURED ones are optimised.
function(lockstep_room_tests path)
  cmake_parse_arguments(PARSE_ARGV 1 TESTS "MEASURED" "LABEL" "DEPS")
  string(REPLACE "/" "_" name "${path}")
  lockstep_room_names(deps ${TESTS_DEPS})
  foreach(kind test property)
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${path}/*_${kind}.cc")
    if(NOT sources)
      continue()
    endif()
    add_executable(${name}_${kind} ${sources})
    target_include_directories(${name}_${kind} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name}_${kind} PRIVATE lockstep::${name} ${deps}
                                                  GTest::gtest_main)
    if(TESTS_MEASURED)
      target_link_libraries(${name}_${kind} PRIVATE lockstep_measured_test_options)
    else()
      target_link_libraries(${name}_${kind} PRIVATE lockstep_test_options)
      target_precompile_headers(${name}_${kind} REUSE_FROM lockstep_${kind}_headers)
    endif()
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
    set(most_seconds 300)
    if(LOCKSTEP_SANITIZE_THREADS)
      set(most_seconds 1200)  # ThreadSanitizer makes a test up to thirty times as slow.
    endif()
    gtest_discover_tests(${name}_${kind} PROPERTIES LABELS ${label} TIMEOUT ${most_seconds} DISCOVERY_TIMEOUT 60)
  endforeach()
endfunction()
