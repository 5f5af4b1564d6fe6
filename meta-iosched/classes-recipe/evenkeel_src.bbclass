# SPDX-License-Identifier: Apache-2.0
# Fetches the sources of Evenkeel. A recipe lists in EVENKEEL_PATHS the files and folders
# of the repository from which it is built. BitBake unpacks them below EVENKEEL_S, with
# the same relative paths.
#
#   EVENKEEL_SRC      path of the repository (default: the repository that
#                     contains the layer). BitBake fetches each listed path by
#                     file://, so only a change in a listed path causes a rebuild
#   EVENKEEL_GIT      URL of the repository without git://, for a layer that was
#                     copied alone
#   EVENKEEL_PROTOCOL protocol of EVENKEEL_GIT (default: https)
#   EVENKEEL_BRANCH   branch in EVENKEEL_GIT (default: main)
#   EVENKEEL_SRCREV   commit in EVENKEEL_GIT, or ${AUTOREV}
#
# BitBake copies the sources before it builds: nothing is written into the repository.

EVENKEEL_PATHS ??= ""
EVENKEEL_GIT ?= ""
EVENKEEL_PROTOCOL ?= "https"
EVENKEEL_BRANCH ?= "main"
EVENKEEL_SRCREV ?= ""
# "evenkeel" is the name in the SRC_URI below, not an override
SRCREV_evenkeel = "${EVENKEEL_SRCREV}"

# scarthgap has no UNPACKDIR: it unpacks into WORKDIR
EVENKEEL_UNPACKDIR = "${@d.getVar('UNPACKDIR') or d.getVar('WORKDIR')}"
EVENKEEL_S = "${EVENKEEL_UNPACKDIR}/evenkeel"

# The hash of a task must not depend on the path of the clone, only on the files.
EVENKEEL_SRC[vardepvalue] = "${@'local' if d.getVar('EVENKEEL_SRC') else 'git'}"

# further parameters for the SRC_URI
EVENKEEL_SRC_PARAMETERS ?= ""

def evenkeel_src_uri(d):
    more = d.getVar('EVENKEEL_SRC_PARAMETERS')
    if d.getVar('EVENKEEL_SRC'):
        paths = d.getVar('EVENKEEL_PATHS').split()
        return ' '.join('file://%s;subdir=evenkeel;destsuffix=evenkeel%s' % (path, more) for path in paths)
    if d.getVar('EVENKEEL_GIT'):
        return 'git://%s;protocol=%s;branch=%s;name=evenkeel;destsuffix=evenkeel%s' % (
            d.getVar('EVENKEEL_GIT'), d.getVar('EVENKEEL_PROTOCOL'), d.getVar('EVENKEEL_BRANCH'), more)
    return ''

FILESEXTRAPATHS:prepend := "${@d.getVar('EVENKEEL_SRC') + ':' if d.getVar('EVENKEEL_SRC') else ''}"
SRC_URI:prepend = "${@evenkeel_src_uri(d)} "

python () {
    if d.getVar('EVENKEEL_SRC'):
        # If the clone does not exist yet, BitBake must parse the recipe again when it appears.
        recipes = os.path.join(d.getVar('EVENKEEL_SRC'), 'recipes')
        bb.parse.mark_dependency(d, recipes)
        if not os.path.isdir(recipes):
            raise bb.parse.SkipRecipe('there is no source: EVENKEEL_SRC is %s, which has no folder recipes'
                                      % d.getVar('EVENKEEL_SRC'))
    elif not d.getVar('PARSE_ALL_RECIPES') and not (d.getVar('EVENKEEL_GIT') and d.getVar('EVENKEEL_SRCREV')):
        raise bb.parse.SkipRecipe('there is no source: the layer does not lie in its repository, so set '
                                  'EVENKEEL_SRC to a clone of it, or EVENKEEL_GIT and EVENKEEL_SRCREV')
}
