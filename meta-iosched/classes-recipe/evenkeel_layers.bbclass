# SPDX-License-Identifier: Apache-2.0
# A recipe that needs more layers than core names their collections in
# EVENKEEL_LAYERS. Where one is missing the recipe is skipped, and whoever asks
# for it is told which layer to add; the rest of the layer goes on working.
#   EVENKEEL_SKIP_LAYER_CHECK = "1"  in a product that has those recipes from elsewhere

EVENKEEL_LAYERS ?= ""

python () {
    # an index of layers wants all of them, as features_check has it
    if d.getVar('PARSE_ALL_RECIPES') or bb.utils.to_boolean(d.getVar('EVENKEEL_SKIP_LAYER_CHECK'), False):
        return
    # collection: what the layer's folder is called
    called = {'openembedded-layer': 'meta-oe', 'webserver': 'meta-webserver', 'rauc': 'meta-rauc'}
    have = (d.getVar('BBFILE_COLLECTIONS') or '').split()
    missing = [called.get(name, name) for name in d.getVar('EVENKEEL_LAYERS').split() if name not in have]
    if missing:
        raise bb.parse.SkipRecipe('it needs %s: add %s to BBLAYERS in conf/bblayers.conf'
                                  % (' and '.join(missing), 'it' if len(missing) == 1 else 'them'))
}
