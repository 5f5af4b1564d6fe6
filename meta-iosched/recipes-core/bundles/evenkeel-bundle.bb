# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Signed update of one slot of an Evenkeel board"
DESCRIPTION = "\
    RAUC bundle in verity format with the root file system of evenkeel-image. The product \
    brings the key; docs/howto/build-with-yocto.md says how to create one for development. \
"
LICENSE = "Apache-2.0"
PV = "${EVENKEEL_VERSION}"

inherit evenkeel_layers
# Excluded from world builds, because it contains evenkeel-image, which is excluded, too.
EXCLUDE_FROM_WORLD = "1"
EVENKEEL_LAYERS = "openembedded-layer meta-python webserver rauc"
# The class comes from meta-rauc. Without that layer, EVENKEEL_LAYERS skips this recipe.
inherit_defer ${@'bundle' if 'rauc' in d.getVar('BBFILE_COLLECTIONS').split() else ''}

RAUC_BUNDLE_COMPATIBLE ?= "evenkeel-${MACHINE}"
RAUC_BUNDLE_FORMAT = "verity"
RAUC_BUNDLE_SLOTS = "rootfs"
RAUC_SLOT_rootfs = "${EVENKEEL_BUNDLE_IMAGE}"
RAUC_SLOT_rootfs[fstype] = "ext4"
RAUC_SLOT_rootfs[adaptive] = "block-hash-index"
EVENKEEL_BUNDLE_IMAGE ?= "evenkeel-image"

# Without a key, BitBake skips the recipe with a message at once; otherwise the build would fail
# after hours. BitBake parses the recipe again when a key file appears, changes or is removed.
python () {
    for name in ('RAUC_KEY_FILE', 'RAUC_CERT_FILE'):
        path = d.getVar(name) or ''
        if path.startswith('pkcs11:'):
            continue
        if path:
            bb.parse.mark_dependency(d, path)
        if not d.getVar('PARSE_ALL_RECIPES') and not (path and os.path.isfile(path)):
            raise bb.parse.SkipRecipe(
                'it must be signed, and %s %s. Set RAUC_KEY_FILE and RAUC_CERT_FILE in local.conf; for development: '
                'openssl req -x509 -newkey rsa:4096 -nodes -subj "/CN=Evenkeel development" -days 3650 '
                '-keyout key.pem -out cert.pem' % (name, 'is %s, where there is no file' % path if path else 'is not set'))
}
