# quern: one Makefile. `make help` lists what it can do.
#
# Variants build into folders of their own: make BUILD=build-asan SANITIZE=address,undefined
BUILD    ?= build
CC       ?= cc
OPT      ?= -O3 -g
SANITIZE ?=
WERROR   ?= -Werror
PKGS     := jansson libutf8proc libmicrohttpd libxxhash

PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS))
PKG_LIBS   := $(shell pkg-config --libs $(PKGS))

# -ffp-contract=off: the references are the definition, whatever the compiler may fuse.
CFLAGS_ALL := -std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc -include src/base/banned.h $(OPT) -ffp-contract=off -fno-math-errno \
	-fvisibility=hidden -pthread -MMD -MP -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wundef -Wvla -Wwrite-strings -Wformat=2 -Wno-missing-field-initializers $(WERROR) $(PKG_CFLAGS) $(CFLAGS)
LDLIBS_ALL := $(PKG_LIBS) -lm -pthread $(LDLIBS)
ifneq ($(SANITIZE),)
CFLAGS_ALL += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
LDFLAGS    += -fsanitize=$(SANITIZE)
endif

LIB_SRC  := $(filter-out src/cli/%,$(wildcard src/*/*.c src/*/*/*.c))
CLI_SRC  := $(wildcard src/cli/*.c)
SUP_SRC  := $(wildcard tests/support/*.c)
UNIT_SRC := $(wildcard tests/unit/*.c)
obj       = $(patsubst %.c,$(BUILD)/%.o,$(1))
UNIT_BIN := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
LIB      := $(BUILD)/libquern.a

FUZZ_BIN := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: all help check check-full tests clean format includes fuzz fuzz-programs
all: $(BUILD)/quern  ## build quern (default)

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*  ## /  make \1\t/' | expand -t 24

$(LIB): $(call obj,$(LIB_SRC))
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/quern: $(call obj,$(CLI_SRC)) $(LIB)
	$(if $(V),,@echo '  LD  $@';)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS_ALL)

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(if $(V),,@echo '  CC  $<';)$(CC) $(CFLAGS_ALL) -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(call obj,$(SUP_SRC)) $(LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo '  LD  $@';)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS_ALL) -lcmocka
$(BUILD)/tests/unit/%.o: CFLAGS_ALL += -Itests

tests: $(UNIT_BIN) $(BUILD)/quern  ## build quern and the test programs

check: all  ## run the quick tests (what ./check runs, without installing anything)
	@tests/run quick

check-full: all  ## run every test: sanitizers, both compilers, real clients
	@tests/run full

# One program a target: build-fuzz/fuzz/fuzz_json_pull -max_total_time=300 NEW tests/data/fuzz/json_pull
fuzz:  ## build the fuzz targets with clang's libFuzzer and sanitizers, into build-fuzz/
	$(MAKE) BUILD=build-fuzz CC=clang-14 SANITIZE=address,undefined,fuzzer-no-link OPT='-O1 -g' fuzz-programs

fuzz-programs: $(FUZZ_BIN)

$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo '  LD  $@';)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS_ALL)

includes:  ## check that includes between rooms go one way only
	@tests/includes

format:  ## lay out every C file as .clang-format says
	clang-format -i $$(git ls-files '*.c' '*.h')

clean:  ## remove what was built
	rm -rf build build-*

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.SECONDARY:
