/* Counts the instructions of a program from the log of QEMU in user mode: -d in_asm,exec,nochain.
 *
 * QEMU translates a block of instructions once (in_asm lists them) and says each time that it runs it
 * (exec). So the sum over all runs of the length of the block is the number of instructions. A block
 * ends at a branch, and nothing but a signal ends it earlier. Prints the sum so far at each call of the
 * function `mark`, and at the end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES (1u << 20)

static struct {
    uint64_t key;
    uint32_t length;
} blocks[PLACES];

/* The block of that key, or the free place for it. */
static uint32_t find(uint64_t key)
{
    uint32_t at = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 44);
    while (blocks[at].length && blocks[at].key != key)
        at = (at + 1) & (PLACES - 1);
    return at;
}

int main(void)
{
    static char line[4096], buffer[1 << 16];
    uint64_t sum = 0, used = 0;
    uint32_t fresh = 0; /* instructions of the block that was translated last */
    setvbuf(stdin, buffer, _IOFBF, sizeof buffer);
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'I' && !strncmp(line, "IN:", 3)) {
            fresh = 0;
        } else if (line[0] == '0' && line[1] == 'x') {
            fresh++;
        } else if (line[0] == 'T' && !strncmp(line, "Trace ", 6)) {
            /* Trace 0: 0x7f... [cs_base/pc/flags/cflags] name */
            char *at = strchr(line, '/');
            const uint64_t pc = at ? strtoull(at + 1, &at, 16) : 0;
            const uint64_t flags = at ? strtoull(at + 1, &at, 16) : 0;
            const uint32_t place = find(pc ^ flags << 48);
            if (fresh) {
                used += !blocks[place].length;
                blocks[place].key = pc ^ flags << 48;
                blocks[place].length = fresh;
                fresh = 0;
            }
            if (!blocks[place].length || used > PLACES / 2) {
                fprintf(stderr, "a block that was never translated, or too many: %s", line);
                return 1;
            }
            const size_t n = strlen(line);
            if (n > 6 && !strcmp(line + n - 6, " mark\n"))
                printf("%llu\n", (unsigned long long)sum);
            sum += blocks[place].length;
        }
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
