// SPDX-License-Identifier: Apache-2.0
/* Write an MCAP file. */
#include "mcap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum opcode {
	MCAP_HEADER = 0x01,
	MCAP_FOOTER = 0x02,
	MCAP_SCHEMA = 0x03,
	MCAP_CHANNEL = 0x04,
	MCAP_MESSAGE = 0x05,
	MCAP_CHUNK_RECORD = 0x06,
	MCAP_MESSAGE_INDEX = 0x07,
	MCAP_CHUNK_INDEX = 0x08,
	MCAP_STATISTICS = 0x0b,
	MCAP_SUMMARY_OFFSET = 0x0e,
	MCAP_DATA_END = 0x0f,
};

static const unsigned char magic[8] = { 0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n' };

/* the fastest level: records of sensors are often alike */
#define ZSTD_LEVEL 1

struct schema {
	char *name, *encoding;
	struct mcap_bytes data;
};

struct channel {
	char *topic, *encoding;
	uint16_t schema;	 /* 0: none */
	struct mcap_bytes pairs; /* metadata, as in the file */
	struct mcap_bytes index; /* of the open chunk: pairs of time and offset */
	uint64_t messages;
};

struct chunk {
	uint64_t first, last;		 /* times */
	uint64_t offset, length;	 /* in the file, including opcode and length */
	uint64_t indexes[MCAP_CHANNELS]; /* offsets of the message indexes, 0: none */
	uint64_t index_length;
	uint64_t compressed, uncompressed;
};

struct mcap {
	FILE *to;
	int error; /* the first failure, a negative errno: nothing is written after it; 0: none */
	uint64_t offset; /* in the file */
	uLong crc;	 /* of the section that is being written */
	struct channel channel[MCAP_CHANNELS];
	uint16_t channels;
	struct schema schema[MCAP_CHANNELS];
	uint16_t schemas;
	struct mcap_bytes open; /* the chunk's records */
	uint64_t open_first, open_last;
	bool open_any;		  /* a message is in the chunk */
	struct mcap_bytes record; /* the record that is assembled */
	struct chunk *chunk;
	size_t chunks, room;
	uint64_t messages, first, last;
	bool zstd;
	struct mcap_bytes packed;
};

/* --- bytes -------------------------------------------------------------------- */

static bool reserve(struct mcap_bytes *b, size_t more)
{
	size_t room = b->room ? b->room : 256;
	unsigned char *p;

	if (b->failed)
		return false;
	while (room - b->length < more)
		room *= 2;
	if (room == b->room)
		return true;
	p = realloc(b->data, room);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->data = p;
	b->room = room;
	return true;
}

static void put(struct mcap_bytes *b, const void *data, size_t length)
{
	if (!length || !reserve(b, length))
		return;
	memcpy(b->data + b->length, data, length);
	b->length += length;
}

/* the file is little-endian, as is the machine: medium.c checks that */
#define PUT(bits)                                                     \
	static void put##bits(struct mcap_bytes *b, uint##bits##_t v) \
	{                                                             \
		put(b, &v, sizeof(v));                                \
	}
PUT(8)
PUT(16)
PUT(32)
PUT(64)
#undef PUT

static void put_string(struct mcap_bytes *b, const char *s)
{
	put32(b, (uint32_t)strlen(s));
	put(b, s, strlen(s));
}

/* --- records -------------------------------------------------------------------- */

static void write_bytes(struct mcap *m, const void *data, size_t length)
{
	if (m->error)
		return;
	errno = 0;
	if (length && fwrite(data, 1, length, m->to) != length)
		m->error = errno ? -errno : -EIO;
	m->crc = crc32_z(m->crc, data, length);
	m->offset += length;
}

/* writes opcode, length and m->record; the record has @more bytes, which follow */
static void write_begin(struct mcap *m, enum opcode opcode, size_t more)
{
	unsigned char head[9] = { (unsigned char)opcode };
	uint64_t length = m->record.length + more;

	if (m->record.failed && !m->error)
		m->error = -ENOMEM;
	memcpy(head + 1, &length, sizeof(length));
	write_bytes(m, head, sizeof(head));
	write_bytes(m, m->record.data, m->record.length);
	m->record.length = 0;
}

/* writes m->record with this opcode */
static int write_record(struct mcap *m, enum opcode opcode)
{
	write_begin(m, opcode, 0);
	return m->error;
}

static void put_channel(struct mcap_bytes *b, const struct mcap *m, uint16_t id)
{
	const struct channel *c = &m->channel[id];

	put16(b, id);
	put16(b, c->schema);
	put_string(b, c->topic);
	put_string(b, c->encoding);
	put32(b, (uint32_t)c->pairs.length);
	put(b, c->pairs.data, c->pairs.length);
}

int mcap_begin(struct mcap **mcap, FILE *to, const char *library, bool zstd)
{
	struct mcap *m = calloc(1, sizeof(*m));

	*mcap = m;
	if (!m)
		return -ENOMEM;
	m->to = to;
	m->zstd = zstd;
	write_bytes(m, magic, sizeof(magic));
	put_string(&m->record, "");
	put_string(&m->record, library);
	return write_record(m, MCAP_HEADER);
}

static void put_schema(struct mcap_bytes *b, const struct mcap *m, uint16_t id)
{
	const struct schema *s = &m->schema[id - 1];

	put16(b, id);
	put_string(b, s->name);
	put_string(b, s->encoding);
	put32(b, (uint32_t)s->data.length);
	put(b, s->data.data, s->data.length);
}

int mcap_schema(struct mcap *m, const char *name, const char *encoding, const void *data,
		size_t length, uint16_t *id)
{
	struct schema *s;

	if (m->schemas == MCAP_CHANNELS)
		return -ENOSPC;
	s = &m->schema[m->schemas];
	s->name = strdup(name);
	s->encoding = strdup(encoding);
	put(&s->data, data, length);
	if (!s->name || !s->encoding || s->data.failed)
		return -ENOMEM;
	*id = ++m->schemas;
	put_schema(&m->record, m, *id);
	return write_record(m, MCAP_SCHEMA);
}

int mcap_channel(struct mcap *m, uint16_t schema, const char *topic, const char *encoding,
		 const struct mcap_pair *pairs, uint16_t *id)
{
	struct channel *c;

	if (m->channels == MCAP_CHANNELS)
		return -ENOSPC;
	c = &m->channel[m->channels];
	c->schema = schema;
	c->topic = strdup(topic);
	c->encoding = strdup(encoding);
	for (; pairs->key; pairs++) {
		put_string(&c->pairs, pairs->key);
		put_string(&c->pairs, pairs->value);
	}
	if (!c->topic || !c->encoding || c->pairs.failed)
		return -ENOMEM;
	*id = m->channels++;
	put_channel(&m->record, m, *id);
	return write_record(m, MCAP_CHANNEL);
}

/* --- chunks ------------------------------------------------------------------------ */

/* The chunk's records in the form of the file. */
static int pack(struct mcap *m, const unsigned char **data, size_t *length)
{
	size_t n;

	*data = m->open.data;
	*length = m->open.length;
	if (!m->zstd)
		return 0;
	m->packed.length = 0;
	if (!reserve(&m->packed, ZSTD_compressBound(m->open.length)))
		return -ENOMEM;
	n = ZSTD_compress(m->packed.data, m->packed.room, m->open.data, m->open.length, ZSTD_LEVEL);
	if (ZSTD_isError(n))
		return -ENOMEM;
	*data = m->packed.data;
	*length = n;
	return 0;
}

static void write_chunk(struct mcap *m, struct chunk *k)
{
	const unsigned char *data;
	struct mcap_bytes *b = &m->record;
	size_t packed;

	m->error = pack(m, &data, &packed);
	*k = (struct chunk){
		.first = m->open_first,
		.last = m->open_last,
		.offset = m->offset,
		.compressed = packed,
		.uncompressed = m->open.length,
	};
	put64(b, k->first);
	put64(b, k->last);
	put64(b, k->uncompressed);
	put32(b, (uint32_t)crc32_z(0, m->open.data, m->open.length));
	put_string(b, m->zstd ? "zstd" : "");
	put64(b, packed);
	/* written as they are: not copied again after the head */
	write_begin(m, MCAP_CHUNK_RECORD, packed);
	write_bytes(m, data, packed);
	k->length = m->offset - k->offset;
}

static void write_indexes(struct mcap *m, struct chunk *k)
{
	uint64_t begin = m->offset;

	for (uint16_t i = 0; i < m->channels; i++) {
		struct mcap_bytes *index = &m->channel[i].index;

		if (!index->length)
			continue;
		k->indexes[i] = m->offset;
		put16(&m->record, i);
		put32(&m->record, (uint32_t)index->length);
		put(&m->record, index->data, index->length);
		index->length = 0;
		write_record(m, MCAP_MESSAGE_INDEX);
	}
	k->index_length = m->offset - begin;
}

static int close_chunk(struct mcap *m)
{
	if (!m->open_any || m->error)
		return m->error;
	if (m->chunks == m->room) {
		size_t room = m->room ? 2 * m->room : 64;
		struct chunk *p = reallocarray(m->chunk, room, sizeof(*p));

		if (!p)
			return m->error = -ENOMEM;
		m->chunk = p;
		m->room = room;
	}
	write_chunk(m, &m->chunk[m->chunks]);
	write_indexes(m, &m->chunk[m->chunks]);
	m->chunks++;
	m->open.length = 0;
	m->open_any = false;
	return m->error;
}

int mcap_message(struct mcap *m, uint16_t channel, uint32_t sequence, uint64_t time,
		 uint64_t published, const void *data, size_t length)
{
	/* channel, sequence, two times, data */
	const uint64_t whole = 2 + 4 + 8 + 8 + length;
	struct mcap_bytes *index;

	if (channel >= m->channels)
		return -EINVAL;
	index = &m->channel[channel].index;
	put64(index, time);
	put64(index, m->open.length);
	put8(&m->open, MCAP_MESSAGE);
	put64(&m->open, whole);
	put16(&m->open, channel);
	put32(&m->open, sequence);
	put64(&m->open, time);
	put64(&m->open, published);
	put(&m->open, data, length);
	if (m->open.failed || index->failed)
		return -ENOMEM;
	/* a real-time clock may have been set back */
	if (!m->open_any || time < m->open_first)
		m->open_first = time;
	if (!m->open_any || time > m->open_last)
		m->open_last = time;
	if (!m->messages || time < m->first)
		m->first = time;
	if (!m->messages || time > m->last)
		m->last = time;
	m->open_any = true;
	m->messages++;
	m->channel[channel].messages++;
	return m->open.length >= MCAP_CHUNK ? close_chunk(m) : 0;
}

/* --- summary ------------------------------------------------------------------------- */

static void write_statistics(struct mcap *m)
{
	struct mcap_bytes *b = &m->record;

	put64(b, m->messages);
	put16(b, m->schemas);
	put32(b, m->channels);
	put32(b, 0);
	put32(b, 0);
	put32(b, (uint32_t)m->chunks);
	put64(b, m->first);
	put64(b, m->last);
	put32(b, (uint32_t)m->channels * 10);
	for (uint16_t i = 0; i < m->channels; i++) {
		put16(b, i);
		put64(b, m->channel[i].messages);
	}
	write_record(m, MCAP_STATISTICS);
}

static void write_chunk_index(struct mcap *m, const struct chunk *k)
{
	struct mcap_bytes *b = &m->record;
	uint32_t count = 0;

	for (uint16_t i = 0; i < m->channels; i++)
		count += k->indexes[i] != 0;
	put64(b, k->first);
	put64(b, k->last);
	put64(b, k->offset);
	put64(b, k->length);
	put32(b, count * 10);
	for (uint16_t i = 0; i < m->channels; i++) {
		if (!k->indexes[i])
			continue;
		put16(b, i);
		put64(b, k->indexes[i]);
	}
	put64(b, k->index_length);
	put_string(b, m->zstd ? "zstd" : "");
	put64(b, k->compressed);
	put64(b, k->uncompressed);
	write_record(m, MCAP_CHUNK_INDEX);
}

static void write_offset(struct mcap *m, enum opcode group, uint64_t begin, uint64_t end)
{
	if (begin == end)
		return;
	put8(&m->record, (uint8_t)group);
	put64(&m->record, begin);
	put64(&m->record, end - begin);
	write_record(m, MCAP_SUMMARY_OFFSET);
}

int mcap_end(struct mcap *m)
{
	uint64_t schemas, channels, statistics, chunks, offsets;
	uint32_t crc;

	if (close_chunk(m))
		return m->error;
	put32(&m->record, (uint32_t)m->crc);
	write_record(m, MCAP_DATA_END);

	schemas = m->offset;
	m->crc = 0;
	for (uint16_t i = 1; i <= m->schemas; i++) {
		put_schema(&m->record, m, i);
		write_record(m, MCAP_SCHEMA);
	}
	channels = m->offset;
	for (uint16_t i = 0; i < m->channels; i++) {
		put_channel(&m->record, m, i);
		write_record(m, MCAP_CHANNEL);
	}
	statistics = m->offset;
	write_statistics(m);
	chunks = m->offset;
	for (size_t i = 0; i < m->chunks; i++)
		write_chunk_index(m, &m->chunk[i]);
	offsets = m->offset;
	write_offset(m, MCAP_SCHEMA, schemas, channels);
	write_offset(m, MCAP_CHANNEL, channels, statistics);
	write_offset(m, MCAP_STATISTICS, statistics, chunks);
	write_offset(m, MCAP_CHUNK_INDEX, chunks, offsets);

	/* the CRC covers the summary and the footer up to the CRC */
	put64(&m->record, schemas);
	put64(&m->record, offsets);
	write_begin(m, MCAP_FOOTER, sizeof(crc));
	crc = (uint32_t)m->crc;
	write_bytes(m, &crc, sizeof(crc));
	write_bytes(m, magic, sizeof(magic));
	return m->error;
}

void mcap_free(struct mcap *m)
{
	if (!m)
		return;
	for (uint16_t i = 0; i < MCAP_CHANNELS; i++) {
		free(m->channel[i].topic);
		free(m->channel[i].encoding);
		free(m->channel[i].pairs.data);
		free(m->channel[i].index.data);
		free(m->schema[i].name);
		free(m->schema[i].encoding);
		free(m->schema[i].data.data);
	}
	free(m->open.data);
	free(m->record.data);
	free(m->packed.data);
	free(m->chunk);
	free(m);
}
