/*
 * DPDK's rte_fib (DIR-24-8) on the same routes and addresses as the benchmark's own tables.
 *
 *   gcc -O3 -march=native -o fib fib.c -lrte_eal -lrte_fib -lrte_rib
 *   ./fib ROUTES ADDRESSES ROUNDS [huge]
 *
 * ROUTES: records of address, length and hop, three 32-bit numbers each; ADDRESSES: 32-bit numbers. Prints the
 * seconds of each round and a sum of all hops, which must be that of the other table.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_fib.h>
#include <rte_memory.h>

#define BATCH 64

static uint32_t *read_all(const char *path, size_t *words)
{
	FILE *file = fopen(path, "rb");
	uint32_t *data;
	long bytes;

	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	bytes = ftell(file);
	rewind(file);
	data = malloc(bytes);
	*words = fread(data, 4, bytes / 4, file);
	fclose(file);
	return data;
}

int main(int argc, char **argv)
{
	/* Huge pages when the machine has 1 GiB of them (vm.nr_hugepages), as DPDK wants. */
	int huge = argc == 5 && !strcmp(argv[4], "huge");
	char *eal[] = { argv[0], huge ? "--in-memory" : "--no-huge", "--no-shconf", "--no-pci", "-m", "1024",
			"--log-level=4", "--force-max-simd-bitwidth=512" };
	struct rte_fib_conf conf = {
		.type = RTE_FIB_DIR24_8,
		.max_routes = 1 << 20,
		.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = 1 << 14 },
	};
	struct rte_fib *fib;
	size_t routes, addresses, i;
	uint32_t *route, *address;

	if (argc < 4) {
		fprintf(stderr, "usage: fib ROUTES ADDRESSES ROUNDS [huge]\n");
		return 2;
	}
	if (rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) < 0)
		return 1;
	route = read_all(argv[1], &routes);
	address = read_all(argv[2], &addresses);
	fib = rte_fib_create("fib", SOCKET_ID_ANY, &conf);
	if (!fib || !route || !address)
		return 1;
	rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DEFAULT);
	for (i = 0; i + 2 < routes; i += 3)
		if (rte_fib_add(fib, route[i], route[i + 1], route[i + 2]) < 0)
			return 1;
	printf("{\"seconds\": [");
	uint64_t sum = 0;
	for (int round = 0; round < atoi(argv[3]); round++) {
		struct timespec begin, end;
		uint64_t hops[BATCH];

		sum = 0;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (i = 0; i + BATCH <= addresses; i += BATCH) {
			rte_fib_lookup_bulk(fib, address + i, hops, BATCH);
			for (int k = 0; k < BATCH; k++)
				sum += hops[k];
		}
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("%s%.9f", round ? ", " : "", end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9);
	}
	printf("], \"sum\": %lu}\n", sum);
	return 0;
}
