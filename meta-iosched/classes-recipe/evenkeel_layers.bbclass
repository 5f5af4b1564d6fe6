# SPDX-License-Identifier: Apache-2.0
# For recipes that need other layers than core. EVENKEEL_LAYERS lists the collections of
# these layers. If one is missing, BitBake skips the recipe; when the recipe is needed,
# BitBake prints which layer to add. The other recipes of meta-iosched keep working.
#   EVENKEEL_SKIP_LAYER_CHECK = "1"  for a product that has the needed recipes in layers of other names

EVENKEEL_LAYERS ?= ""

python () {
    # The layer index must parse every recipe (PARSE_ALL_RECIPES). features_check.bbclass has the same exception.
    if d.getVar('PARSE_ALL_RECIPES') or bb.utils.to_boolean(d.getVar('EVENKEEL_SKIP_LAYER_CHECK'), False):
        return
    # collection → name of the layer, for the message
    called = {'openembedded-layer': 'meta-oe', 'webserver': 'meta-webserver', 'rauc': 'meta-rauc'}
    have = (d.getVar('BBFILE_COLLECTIONS') or '').split()
    missing = [called.get(name, name) for name in d.getVar('EVENKEEL_LAYERS').split() if name not in have]
    if missing:
        raise bb.parse.SkipRecipe('it needs %s: add %s to BBLAYERS in conf/bblayers.conf'
                                  % (' and '.join(missing), 'it' if len(missing) == 1 else 'them'))
}
