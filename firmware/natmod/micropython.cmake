# As micropython.mk, for ports that are built with CMake (rp2, esp32):
#   make -C ports/rp2 USER_C_MODULES=path/to/edgeforest/firmware/natmod/micropython.cmake
set(EF_KERNEL ${CMAKE_CURRENT_LIST_DIR}/../kernel)
add_library(usermod_edgeforest INTERFACE)
target_sources(usermod_edgeforest INTERFACE
    ${CMAKE_CURRENT_LIST_DIR}/module.c
    ${CMAKE_CURRENT_LIST_DIR}/predictor.c
    ${CMAKE_CURRENT_LIST_DIR}/trees.c
    ${EF_KERNEL}/arms.c
    ${EF_KERNEL}/bins.c
    ${EF_KERNEL}/compact.c
    ${EF_KERNEL}/count.c
    ${EF_KERNEL}/criteria.c
    ${EF_KERNEL}/data.c
    ${EF_KERNEL}/grow.c
    ${EF_KERNEL}/race.c
    ${EF_KERNEL}/second_look.c
    ${EF_KERNEL}/small.c
)
target_include_directories(usermod_edgeforest INTERFACE ${CMAKE_CURRENT_LIST_DIR} ${EF_KERNEL})
target_compile_definitions(usermod_edgeforest INTERFACE
    EF_BOARD EF_WITHOUT_PAPER EF_WITHOUT_ENTROPY EF_REAL=float
)
target_link_libraries(usermod INTERFACE usermod_edgeforest)
