# SPDX-License-Identifier: Apache-2.0
# Where the sources of Evenkeel come from. A recipe names in EVENKEEL_PATHS the
# files and folders of the repository that it is built from; they are unpacked
# below EVENKEEL_S under the same names.
#
#   EVENKEEL_SRC      the repository: file:// of the named paths, so that
#                     a change of one of them, and of nothing else, builds anew.
#                     By default the repository that the layer lies in
#   EVENKEEL_GIT      for the layer alone: URL of the repository, as after git://
#   EVENKEEL_PROTOCOL its protocol (https)
#   EVENKEEL_BRANCH   its branch (main)
#   EVENKEEL_SRCREV   its commit, or ${AUTOREV}
#
# Sources are copied before they are built: nothing is written beside them.

EVENKEEL_PATHS ??= ""
EVENKEEL_GIT ?= ""
EVENKEEL_PROTOCOL ?= "https"
EVENKEEL_BRANCH ?= "main"
EVENKEEL_SRCREV ?= ""
# the name is that of the SRC_URI below, and no override
SRCREV_evenkeel = "${EVENKEEL_SRCREV}"

# scarthgap unpacks into WORKDIR
EVENKEEL_UNPACKDIR = "${@d.getVar('UNPACKDIR') or d.getVar('WORKDIR')}"
EVENKEEL_S = "${EVENKEEL_UNPACKDIR}/evenkeel"

# a task's hash hangs on the files, not on where somebody has his clone
EVENKEEL_SRC[vardepvalue] = "${@'local' if d.getVar('EVENKEEL_SRC') else 'git'}"

# more parameters of the SRC_URI
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
        # so that a clone which comes later is seen
        recipes = os.path.join(d.getVar('EVENKEEL_SRC'), 'recipes')
        bb.parse.mark_dependency(d, recipes)
        if not os.path.isdir(recipes):
            raise bb.parse.SkipRecipe('there is no source: EVENKEEL_SRC is %s, which has no folder recipes'
                                      % d.getVar('EVENKEEL_SRC'))
    elif not d.getVar('PARSE_ALL_RECIPES') and not (d.getVar('EVENKEEL_GIT') and d.getVar('EVENKEEL_SRCREV')):
        raise bb.parse.SkipRecipe('there is no source: the layer does not lie in its repository, so set '
                                  'EVENKEEL_SRC to a clone of it, or EVENKEEL_GIT and EVENKEEL_SRCREV')
}
