# SPDX-License-Identifier: Apache-2.0
# A recipe that needs more layers than core lists their collections in
# EVENKEEL_LAYERS. If one is missing, BitBake skips the recipe, and a request for
# it prints which layer to add. The other recipes of the layer keep working.
#   EVENKEEL_SKIP_LAYER_CHECK = "1"  for a product that has the recipes of these layers in another layer

EVENKEEL_LAYERS ?= ""

python () {
    # the layer index parses every recipe; features_check.bbclass has the same exception
    if d.getVar('PARSE_ALL_RECIPES') or bb.utils.to_boolean(d.getVar('EVENKEEL_SKIP_LAYER_CHECK'), False):
        return
    # collection: name of the layer's folder
    called = {'openembedded-layer': 'meta-oe', 'webserver': 'meta-webserver', 'rauc': 'meta-rauc'}
    have = (d.getVar('BBFILE_COLLECTIONS') or '').split()
    missing = [called.get(name, name) for name in d.getVar('EVENKEEL_LAYERS').split() if name not in have]
    if missing:
        raise bb.parse.SkipRecipe('it needs %s: add %s to BBLAYERS in conf/bblayers.conf'
                                  % (' and '.join(missing), 'it' if len(missing) == 1 else 'them'))
}
