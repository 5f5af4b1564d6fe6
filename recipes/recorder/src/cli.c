// SPDX-License-Identifier: Apache-2.0
/* Command lines. */
#include "cli.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "value.h"

#define OPTIONS_MOST 16
/* what getopt_long() returns for the option at this place of the table */
#define FIRST  256
#define HELP   'h'
#define INDENT 22

static void say(const struct cli *cli, const char *fmt, va_list ap, const char *end)
{
	fprintf(stderr, "ek-recorder %s: ", cli->command);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "%s\n", end);
}

void cli_say(const struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(cli, fmt, ap, "");
	va_end(ap);
}

int cli_wrong(const struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(cli, fmt, ap, " (see --help)");
	va_end(ap);
	return 2;
}

static bool takes_value(const struct cli_option *o)
{
	return o->kind > CLI_SET;
}

static void print_option(const struct cli_option *o)
{
	const char *tab = takes_value(o) ? strchr(o->help, '\t') : NULL;
	const char *text = tab ? tab + 1 : o->help;
	char letter[8] = "";
	int used;

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	used = printf("  %s--%s%s%.*s", letter, o->name, tab ? " " : "",
		      tab ? (int)(tab - o->help) : 0, o->help);
	while (*text) {
		size_t length = strcspn(text, "\n");

		printf("%*s%.*s\n", used < INDENT ? INDENT - used : 1, "", (int)length, text);
		text += length + (text[length] != '\0');
		used = 0;
	}
}

static int help(const struct cli *cli)
{
	printf("Usage: ek-recorder %s [OPTION...]%s%s\n\n%s\n\n", cli->command,
	       *cli->usage ? " " : "", cli->usage, cli->about);
	for (const struct cli_option *o = cli->options; o->name; o++)
		print_option(o);
	printf("  --help              print this text\n");
	if (cli->notes)
		printf("\n%s\n", cli->notes);
	return fflush(stdout) ? 1 : 0;
}

static const char *choose(const struct cli_option *o, const char *value, char why[VALUE_WHY])
{
	size_t used = 0;

	for (int i = 0; o->choices[i]; i++) {
		if (!strcmp(value, o->choices[i])) {
			*(int *)o->to = i;
			return NULL;
		}
		used += (size_t)snprintf(why + used, VALUE_WHY - used, "%s%s",
					 !i		   ? "must be " :
					 o->choices[i + 1] ? ", " :
							     " or ",
					 o->choices[i]);
	}
	return why;
}

/* NULL, or what is wrong with the value */
static const char *take(const struct cli_option *o, const char *value, char why[VALUE_WHY])
{
	switch (o->kind) {
	case CLI_ON:
	case CLI_OFF:
		*(bool *)o->to = o->kind == CLI_ON;
		return NULL;
	case CLI_SET:
		*(int *)o->to = (int)o->least;
		return NULL;
	case CLI_TEXT:
		*(const char **)o->to = value;
		return *value ? NULL : "must not be empty";
	case CLI_CHOICE:
		return choose(o, value, why);
	case CLI_NUMBER:
	case CLI_BYTES:
	case CLI_DURATION:
		return value_parse(value, (enum value_kind)(o->kind - CLI_NUMBER + VALUE_NUMBER),
				   o->least, o->most, o->to, why);
	case CLI_PARSED:
		return o->parse(o->to, value);
	}
	return NULL;
}

static int check_count(const struct cli *cli)
{
	if (cli->count >= cli->least && (cli->most < 0 || cli->count <= cli->most))
		return -1;
	if (!cli->most)
		return cli_wrong(cli, "unexpected argument '%s'", cli->arguments[0]);
	return cli_wrong(cli, "expected %s", cli->usage);
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
	struct option all[OPTIONS_MOST + 2] = { { "help", no_argument, NULL, HELP } };
	char letters[2 * OPTIONS_MOST + 3] = ":h", why[VALUE_WHY];
	size_t used = 2;
	int c;

	for (int i = 0; i < OPTIONS_MOST && cli->options[i].name; i++) {
		const struct cli_option *o = &cli->options[i];

		all[i + 1] = (struct option){ o->name, takes_value(o), NULL, FIRST + i };
		if (!o->letter)
			continue;
		letters[used++] = o->letter;
		letters[used++] = ':';
		all[i + 1].val = (unsigned char)o->letter;
	}
	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, letters, all, NULL)) != -1) {
		const struct cli_option *o = cli->options;
		const char *wrong;

		if (c == HELP)
			return help(cli);
		if (c == ':')
			return cli_wrong(cli, "%s needs a value", argv[optind - 1]);
		if (c == '?')
			return cli_wrong(cli, "unknown option %s, or it takes no value",
					 argv[optind - 1]);
		while (c < FIRST ? o->letter != c : o != &cli->options[c - FIRST])
			o++;
		wrong = take(o, optarg, why);
		if (wrong)
			return cli_wrong(cli, "--%s: '%s' %s", o->name, optarg, wrong);
	}
	cli->arguments = argv + optind;
	cli->count = argc - optind;
	return check_count(cli);
}
