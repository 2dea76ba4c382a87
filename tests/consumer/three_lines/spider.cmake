find_package(SpiderGen CONFIG REQUIRED)
add_executable(heat heat.c)
spider_add_stencil(heat SPECS heat2d.yaml)
