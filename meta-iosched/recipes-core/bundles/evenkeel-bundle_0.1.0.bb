# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Update of an Evenkeel board: a slot, signed"
DESCRIPTION = "\
    RAUC bundle in verity format with the root file system of evenkeel-image. The key is \
    the product's: docs/yocto.md says how to make one to develop with. \
"
LICENSE = "Apache-2.0"

inherit evenkeel_layers
# as the image in it
EXCLUDE_FROM_WORLD = "1"
EVENKEEL_LAYERS = "openembedded-layer meta-python webserver rauc"
# a class of meta-rauc; without that layer the recipe is skipped, above
inherit_defer ${@'bundle' if 'rauc' in d.getVar('BBFILE_COLLECTIONS').split() else ''}

RAUC_BUNDLE_COMPATIBLE ?= "evenkeel-${MACHINE}"
RAUC_BUNDLE_FORMAT = "verity"
RAUC_BUNDLE_SLOTS = "rootfs"
RAUC_SLOT_rootfs = "${EVENKEEL_BUNDLE_IMAGE}"
RAUC_SLOT_rootfs[fstype] = "ext4"
RAUC_SLOT_rootfs[adaptive] = "block-hash-index"
EVENKEEL_BUNDLE_IMAGE ?= "evenkeel-image"

# Said before hours of building, and with the way out. A key that comes later is
# seen: the recipe is read again when the file appears, changes or goes.
python () {
    for name in ('RAUC_KEY_FILE', 'RAUC_CERT_FILE'):
        path = d.getVar(name) or ''
        if path.startswith('pkcs11:'):
            continue
        if path:
            bb.parse.mark_dependency(d, path)
        if not d.getVar('PARSE_ALL_RECIPES') and not (path and os.path.isfile(path)):
            raise bb.parse.SkipRecipe(
                'it must be signed, and %s %s. Set RAUC_KEY_FILE and RAUC_CERT_FILE in local.conf; to develop: '
                'openssl req -x509 -newkey rsa:4096 -nodes -subj "/CN=Evenkeel development" -days 3650 '
                '-keyout key.pem -out cert.pem' % (name, 'is %s, where there is no file' % path if path else 'is not set'))
}
