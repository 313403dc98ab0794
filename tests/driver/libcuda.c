/* A stand-in for NVIDIA's driver, libcuda.so.1, for tests on machines without a GPU.

   Device memory is memory of the host. What a stream is given is done when somebody
   waits for it, or earlier, in an order that is chosen to be unkind (FAKE_ORDER). A
   kernel is a call back into Python. Only what snref calls is here; what a program may
   not do (use freed memory, copy to memory that is not pinned beside others, wait for
   an event that nobody records) is written down as a fault.

   cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 libcuda.c

   FAKE_ORDER    lazy: when waited for; random:SEED: now and then; or the numbers of the
                 streams that run ahead of the others: "0", "12"
   FAKE_FREE     1: copies and kernels do nothing, so that the host's time is left
   FAKE_DEVICES, FAKE_CAPABILITY, FAKE_DRIVER, FAKE_BYTES, FAKE_PINNED   what is there
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int Result;       /* CUresult */
typedef uint64_t Address; /* CUdeviceptr */
enum { OK, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 100,
       INVALID_DEVICE, INVALID_IMAGE = 200, INVALID_CONTEXT, INVALID_HANDLE = 400,
       NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 };

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *value = getenv(name);
    return value && *value ? strtoull(value, NULL, 10) : otherwise;
}
static int free_of_charge(void) { return (int)setting("FAKE_FREE", 0); }

static char faults[16384];
static void fault(const char *format, ...) {
    size_t used = strlen(faults);
    if (used + 300 > sizeof faults) return;
    va_list rest;
    va_start(rest, format);
    used += (size_t)vsnprintf(faults + used, 290, format, rest);
    va_end(rest);
    strcpy(faults + used, "\n");
}
const char *fake_faults(void) { return faults; }

/* ---- what the tests watch: each thing that is issued ---- */
enum { COPY, KERNEL, RECORD, WAIT, SYNCHRONIZE, KINDS };
typedef void (*Watcher)(int what, int stream, Address a, Address b, size_t bytes,
                        void *arguments);
static Watcher watcher;
static long counts[KINDS];
void fake_watch(Watcher w) { watcher = w; }
long fake_count(int what) { return counts[what]; }
static void issued(int what, int stream, Address a, Address b, size_t n, void *arguments) {
    counts[what]++;
    if (watcher) watcher(what, stream, a, b, n, arguments);
}

/* ---- memory: of the device and, pinned, of the host ---- */
typedef struct Block { Address at; size_t size; int host, live; struct Block *next; } Block;
static Block *blocks;
static size_t used[2], most[2];
size_t fake_used(int host) { return used[host]; }
size_t fake_most(int host) { return most[host]; }
static size_t total(int host) {
    return setting(host ? "FAKE_PINNED" : "FAKE_BYTES", (size_t)64 << 30);
}
static Block *block_of(Address at, size_t n, int live) {
    for (Block *b = blocks; b; b = b->next)
        if (b->live == live && at >= b->at && at + n <= b->at + b->size) return b;
    return NULL;
}
static Result allocate(Address *at, size_t size, int host) {
    if (!size) return INVALID_VALUE;
    if (used[host] + size > total(host)) return OUT_OF_MEMORY;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return OUT_OF_MEMORY;
    if (!free_of_charge()) memset(memory, 0xff, size); /* NaN */
    Block *block = calloc(1, sizeof *block);
    *block = (Block){(Address)memory, size, host, 1, blocks};
    blocks = block;
    used[host] += size;
    if (used[host] > most[host]) most[host] = used[host];
    *at = block->at;
    return OK;
}
static Result drain(void);
static Result deallocate(Address at, int host) {
    for (Block *b = blocks; b; b = b->next)
        if (b->live && b->at == at && b->host == host) {
            drain(); /* freeing waits for all that is under way */
            used[host] -= b->size;
            b->live = 0; /* and these addresses are never given again */
            mprotect((void *)at, b->size, PROT_NONE);
            madvise((void *)at, b->size, MADV_DONTNEED);
            return OK;
        }
    fault("free of %p, which is not allocated", (void *)at);
    return INVALID_VALUE;
}

/* ---- kernels: what the machine code says of their parameters ---- */
typedef struct { char name[256]; int n, offset[512], size[512], bytes; } Kernel;
typedef struct { unsigned char *image; Kernel kernel; } Module;

static int parse(Module *module, const char *name) {
    Kernel *k = &module->kernel;
    Elf64_Ehdr *head = (void *)module->image;
    Elf64_Shdr *sections = (void *)(module->image + head->e_shoff);
    const char *names = (char *)module->image + sections[head->e_shstrndx].sh_offset;
    char wanted[300];
    snprintf(k->name, sizeof k->name, "%s", name);
    snprintf(wanted, sizeof wanted, ".nv.info.%s", name);
    for (int i = 0; i < head->e_shnum; i++) {
        if (strcmp(names + sections[i].sh_name, wanted)) continue;
        unsigned char *p = module->image + sections[i].sh_offset;
        unsigned char *end = p + sections[i].sh_size;
        for (; p + 4 <= end; p += 4 + (p[0] == 4 ? p[2] | p[3] << 8 : 0)) {
            uint16_t *half = (void *)(p + 4);
            uint32_t *word = (void *)(p + 4);
            if (p[0] != 4 || (p[1] != 0x17 && p[1] != 0x45)) continue; /* KPARAM_INFO */
            int at = half[2];
            k->offset[at] = half[3];
            k->size[at] = p[1] == 0x17 ? (int)(word[2] >> 18) : half[4];
            if (at >= k->n) k->n = at + 1;
            if (k->offset[at] + k->size[at] > k->bytes) k->bytes = k->offset[at] + k->size[at];
        }
        return 1;
    }
    return 0;
}

/* ---- streams and events ---- */
typedef struct Stream Stream;
typedef struct { Stream *stream; int done; } Record; /* one recording of an event */
typedef struct { Record *last; int destroyed; } Event;
typedef struct Work {
    int what;
    Address to, from;
    size_t n;
    Record *record;
    Kernel *kernel;
    unsigned grid[3], block[3];
    unsigned char *arguments;
    struct Work *next;
} Work;
struct Stream { Work *first, *last; int number, destroyed, running; Stream *next; };
static Stream *streams;
static int n_streams;
static Result sticky; /* an error that ends the context, as on a GPU */
typedef int (*Runner)(const char *, unsigned *, unsigned *, void *);
static Runner runner;
void fake_run_kernels_with(Runner r) { runner = r; }

static void perform(Stream *s) {
    Work *work = s->first;
    s->first = work->next;
    if (!s->first) s->last = NULL;
    if (work->what == RECORD) work->record->done = 1;
    if (!sticky && !free_of_charge()) {
        if (work->what == COPY) memmove((void *)work->to, (void *)work->from, work->n);
        if (work->what == KERNEL &&
            runner(work->kernel->name, work->grid, work->block, work->arguments))
            sticky = LAUNCH_FAILED;
    }
    free(work->arguments);
    free(work);
}
static int blocked(Stream *s) { return s->first->what == WAIT && !s->first->record->done; }
static void demand(Stream *s, Record *until) { /* do what has to be done for that */
    if (s->running) { fault("stream %d waits for itself", s->number); return; }
    s->running = 1;
    while (s->first && !(until && until->done)) {
        if (blocked(s)) demand(s->first->record->stream, s->first->record);
        perform(s);
    }
    s->running = 0;
}
static uint64_t state;
static uint64_t draw(void) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state;
}
static Stream *some_stream(void) {
    Stream *s = streams;
    for (int pick = (int)(draw() % (uint64_t)n_streams); pick; pick--) s = s->next;
    return s;
}
static Result drain(void) {
    for (Stream *s = streams; s; s = s->next) demand(s, NULL);
    return sticky;
}
static void after_issue(void) {
    const char *order = getenv("FAKE_ORDER");
    if (!order || !strcmp(order, "lazy")) return;
    if (!strncmp(order, "random:", 7)) {
        if (!state) state = 88172645463325252ull + 7919 * strtoull(order + 7, NULL, 10);
        for (int tries = (int)(draw() % 4); tries; tries--) {
            Stream *s = some_stream();
            for (int k = (int)(draw() % 6); k && s->first && !blocked(s); k--) perform(s);
        }
        return;
    }
    for (int again = 1; again;) { /* these streams are never kept waiting */
        again = 0;
        for (Stream *s = streams; s; s = s->next)
            while (strchr(order, '0' + s->number % 3) && s->first && !blocked(s)) {
                perform(s);
                again = 1;
            }
    }
}
static Work *push(Stream *s, int what) {
    if (!s) { static Stream null; fault("work for the default stream"); s = &null; }
    if (s->destroyed) fault("work for a destroyed stream");
    Work *work = calloc(1, sizeof *work);
    work->what = what;
    if (s->last) s->last->next = work; else s->first = work;
    s->last = work;
    return work;
}

/* ---- the driver's functions ---- */
typedef struct { int device; } Context;
static Context contexts[8];
static _Thread_local Context *stack[8];
static _Thread_local int depth;
static int ready;
#define CHECK \
    if (!ready) return NOT_INITIALIZED; \
    if (!depth) return INVALID_CONTEXT; \
    if (sticky) return sticky
static int devices(void) { return (int)setting("FAKE_DEVICES", 1); }
static int capability(void) { return (int)setting("FAKE_CAPABILITY", 80); }

Result cuInit(unsigned flags) { ready = devices() > 0; return ready ? OK : NO_DEVICE; }
Result cuDriverGetVersion(int *v) { *v = (int)setting("FAKE_DRIVER", 13000); return OK; }
Result cuDeviceGetCount(int *n) { *n = devices(); return ready ? OK : NOT_INITIALIZED; }
Result cuDeviceGet(int *d, int i) { *d = i; return i >= 0 && i < devices() ? OK : INVALID_DEVICE; }
Result cuDeviceGetName(char *s, int n, int d) { snprintf(s, (size_t)n, "Stand-in %d", d); return OK; }
Result cuDeviceGetUuid_v2(void *u, int d) { memset(u, 0x10 + d, 16); return OK; }
Result cuDeviceGetAttribute(int *v, int which, int d) {
    *v = which == 75 ? capability() / 10 : which == 76 ? capability() % 10 : which == 16 ? 108 : 1;
    return OK;
}
Result cuDeviceTotalMem_v2(size_t *n, int d) { *n = total(0); return OK; }
Result cuDevicePrimaryCtxRetain(Context **c, int d) { contexts[d].device = d; *c = &contexts[d]; return OK; }
Result cuDevicePrimaryCtxRelease_v2(int d) { return OK; }
Result cuDevicePrimaryCtxGetState(int d, unsigned *f, int *on) { *f = 0; *on = 1; return OK; }
Result cuCtxGetCurrent(Context **c) { *c = depth ? stack[depth - 1] : NULL; return ready ? OK : NOT_INITIALIZED; }
Result cuCtxSetCurrent(Context *c) { if (!depth) depth = 1; stack[depth - 1] = c; if (!c) depth--; return OK; }
Result cuCtxPushCurrent_v2(Context *c) { if (!c || depth == 8) return INVALID_CONTEXT; stack[depth++] = c; return OK; }
Result cuCtxPopCurrent_v2(Context **c) { if (!depth) return INVALID_CONTEXT; *c = stack[--depth]; return OK; }
Result cuCtxGetDevice(int *d) { if (!depth) return INVALID_CONTEXT; *d = stack[depth - 1]->device; return OK; }
Result cuMemGetInfo_v2(size_t *f, size_t *t) { CHECK; *t = total(0); *f = total(0) - used[0]; return OK; }
Result cuMemAlloc_v2(Address *at, size_t n) { CHECK; return allocate(at, n, 0); }
Result cuMemFree_v2(Address at) { CHECK; return deallocate(at, 0); }
Result cuMemHostAlloc(void **at, size_t n, unsigned f) { CHECK; return allocate((Address *)at, n, 1); }
Result cuMemFreeHost(void *at) { CHECK; return deallocate((Address)at, 1); }

/* Memory of the host that is not pinned is copied before the call returns. */
static Result copy(Address to, Address from, size_t n, Stream *s, Address device, Address host) {
    CHECK;
    if (!block_of(device, n, 1)) {
        fault("copy of %zu bytes at %p, which are %s", n, (void *)device,
              block_of(device, n, 0) ? "freed" : "not the device's");
        return sticky = ILLEGAL_ADDRESS;
    }
    Work *work = push(s, COPY);
    work->to = to; work->from = from; work->n = n;
    int pinned = block_of(host, n, 1) != NULL;
    issued(COPY, s->number, to, from, n, NULL);
    if (!pinned) {
        demand(s, NULL);
        issued(SYNCHRONIZE, s->number, 0, 0, 0, NULL);
    } else after_issue();
    return sticky;
}
Result cuMemcpyHtoDAsync_v2(Address to, Address from, size_t n, Stream *s) { return copy(to, from, n, s, to, from); }
Result cuMemcpyDtoHAsync_v2(Address to, Address from, size_t n, Stream *s) { return copy(to, from, n, s, from, to); }

Result cuStreamCreate(Stream **s, unsigned flags) {
    CHECK;
    *s = calloc(1, sizeof **s);
    (*s)->number = n_streams++;
    (*s)->next = streams;
    streams = *s;
    return OK;
}
Result cuStreamDestroy_v2(Stream *s) { CHECK; demand(s, NULL); s->destroyed = 1; return OK; }
Result cuStreamSynchronize(Stream *s) {
    CHECK;
    demand(s, NULL);
    issued(SYNCHRONIZE, s->number, 0, 0, 0, NULL);
    return sticky;
}
Result cuStreamWaitEvent(Stream *s, Event *e, unsigned flags) {
    CHECK;
    if (e->destroyed) { fault("wait for a destroyed event"); return INVALID_HANDLE; }
    if (!e->last) fault("wait for an event that was never recorded");
    issued(WAIT, s->number, (Address)e->last, 0, 0, NULL);
    if (!e->last || e->last->done) return OK;
    push(s, WAIT)->record = e->last;
    after_issue();
    return sticky;
}
Result cuEventCreate(Event **e, unsigned flags) { CHECK; *e = calloc(1, sizeof **e); return OK; }
Result cuEventDestroy_v2(Event *e) { CHECK; e->destroyed = 1; return OK; }
Result cuEventRecord(Event *e, Stream *s) {
    CHECK;
    if (e->destroyed) { fault("record of a destroyed event"); return INVALID_HANDLE; }
    e->last = calloc(1, sizeof *e->last);
    e->last->stream = s;
    push(s, RECORD)->record = e->last;
    issued(RECORD, s->number, (Address)e->last, 0, 0, NULL);
    after_issue();
    return sticky;
}

Result cuModuleLoadData(Module **m, const void *code) {
    CHECK;
    const Elf64_Ehdr *head = code;
    if (memcmp(code, ELFMAG, 4)) return INVALID_IMAGE;
    size_t size = head->e_shoff + (size_t)head->e_shnum * sizeof(Elf64_Shdr);
    const Elf64_Shdr *s = (const void *)((char *)code + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++)
        if (s[i].sh_type != SHT_NOBITS && s[i].sh_offset + s[i].sh_size > size)
            size = s[i].sh_offset + s[i].sh_size;
    *m = calloc(1, sizeof **m);
    (*m)->image = malloc(size);
    memcpy((*m)->image, code, size);
    return OK;
}
Result cuModuleUnload(Module *m) { CHECK; drain(); return OK; }
Result cuModuleGetFunction(Kernel **k, Module *m, const char *name) {
    CHECK;
    *k = &m->kernel;
    return parse(m, name) ? OK : NOT_FOUND;
}
Result cuLaunchKernel(Kernel *k, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared, Stream *s,
                      void **arguments, void **extra) {
    CHECK;
    if (!gx || !gy || !gz || gx > 2147483647u || gy > 65535 || gz > 65535 || !bx || !by ||
        !bz || bz > 64 || (uint64_t)bx * by * bz > 1024)
        return INVALID_VALUE;
    Work *work = push(s, KERNEL);
    work->kernel = k;
    memcpy(work->grid, (unsigned[]){gx, gy, gz}, sizeof work->grid);
    memcpy(work->block, (unsigned[]){bx, by, bz}, sizeof work->block);
    work->arguments = calloc(1, (size_t)k->bytes + 8);
    for (int i = 0; i < k->n; i++) /* as the machine code has them */
        memcpy(work->arguments + k->offset[i], arguments[i], (size_t)k->size[i]);
    issued(KERNEL, s->number, (Address)k->name, 0, 0, work->arguments);
    after_issue();
    return sticky;
}
Result cuGetErrorName(Result e, const char **s) { static char b[32]; snprintf(b, 32, "CUDA_ERROR_%d", e); *s = b; return OK; }
Result cuGetErrorString(Result e, const char **s) { return cuGetErrorName(e, s); }

/* The bindings ask for everything by name; what is not above is not there. */
Result cuGetProcAddress_v2(const char *name, void **at, int version, uint64_t flags, int *status) {
    static void *self;
    char full[200];
    if (!self) self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    snprintf(full, sizeof full, "%s_v2", name);
    *at = version > (int)setting("FAKE_DRIVER", 13000) ? NULL : dlsym(self, full);
    if (!*at && version <= (int)setting("FAKE_DRIVER", 13000)) *at = dlsym(self, name);
    if (status) *status = *at ? 0 : 1;
    return *at ? OK : NOT_FOUND;
}
